import type { Handler } from '../../../kernel/plugin.ts'
import type contract from '../contract.ts'
import type { Inbox } from '../inbox.ts'

export const deleteOne =
  (inbox: Inbox): Handler<(typeof contract.methods)['notification.delete']> =>
  async ({ id }) => {
    const record = inbox.get(id)
    if (record === undefined || record.status === 'deleted') return { id, deleted: false }
    await inbox.move(record, 'deleted')
    return { id, deleted: true }
  }
