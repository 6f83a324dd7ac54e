import type { Handler } from '../../../kernel/plugin.ts'
import type contract from '../contract.ts'
import type { Inbox } from '../inbox.ts'
import { pageOf } from '../list.ts'

export const list =
  (inbox: Inbox): Handler<(typeof contract.methods)['notification.list']> =>
  (params) =>
    pageOf(inbox.sorted(), params ?? {})
