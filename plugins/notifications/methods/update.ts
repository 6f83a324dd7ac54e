import type { Handler } from '../../../kernel/plugin.ts'
import type contract from '../contract.ts'
import { faults } from '../faults.ts'
import type { Inbox } from '../inbox.ts'

export const update =
  (inbox: Inbox): Handler<(typeof contract.methods)['notification.update']> =>
  async ({ id, status }) => {
    const record = inbox.get(id)
    if (record === undefined) throw faults.notification_not_found({ id: id.slice(0, 128) })
    return { record: await inbox.move(record, status) }
  }
