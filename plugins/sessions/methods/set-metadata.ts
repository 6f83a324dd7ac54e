import { crashPoint } from '../../../kernel/crash-points.ts'
import type { Handler } from '../../../kernel/plugin.ts'
import type contract from '../contract.ts'
import { faults } from '../faults.ts'
import type { Registry } from '../registry.ts'
import { changedMetadata } from '../request.ts'

/** Answers once the change is durable; limits hold for the merged metadata. */
export const setMetadata =
  (registry: Registry): Handler<(typeof contract.methods)['session.set_metadata']> =>
  async ({ session_id, metadata }) => {
    const session = registry.get(session_id)
    await session.enqueue(async () => {
      if (session.removed) throw faults.session_not_found({ id: session_id })
      const wanted = changedMetadata(session.info.metadata ?? {}, metadata)
      crashPoint('change.before')
      await registry.commit(
        session,
        (it) => {
          const { metadata: _old, ...info } = it.info
          return { ...it, info: Object.keys(wanted).length === 0 ? info : { ...info, metadata: wanted } }
        },
        'session_updated',
      )
      crashPoint('change.after')
    })
    return { session: session.info }
  }
