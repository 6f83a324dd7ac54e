import type { Handler } from '../../../kernel/plugin.ts'
import type { Attachments } from '../attach.ts'
import type contract from '../contract.ts'

/** Ends a stream, or hands out once what it ended with. */
export const detach =
  (attachments: Attachments): Handler<(typeof contract.methods)['session.detach']> =>
  ({ stream_id }) =>
    attachments.detach(stream_id)
