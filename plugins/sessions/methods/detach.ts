import type { Handler } from '../../../kernel/plugin.ts'
import type { Attachments } from '../attach.ts'
import type contract from '../contract.ts'

export const detach =
  (attachments: Attachments): Handler<(typeof contract.methods)['session.detach']> =>
  ({ stream_id }) =>
    attachments.detach(stream_id)
