import { crashPoint } from '../../../kernel/crash-points.ts'
import type { Handler } from '../../../kernel/plugin.ts'
import type contract from '../contract.ts'
import { faults } from '../faults.ts'
import type { Registry } from '../registry.ts'
import { displayName } from '../request.ts'

/** Answers once the name is durable; the name it already has changes nothing. */
export const rename =
  (registry: Registry): Handler<(typeof contract.methods)['session.rename']> =>
  async ({ session_id, name }) => {
    const session = registry.get(session_id)
    const wanted = displayName(name)
    await session.enqueue(async () => {
      if (session.removed) throw faults.session_not_found({ id: session_id })
      if (session.info.name === wanted) return
      crashPoint('change.before')
      await registry.commit(
        session,
        (it) => {
          const { name: _old, ...info } = it.info
          return { ...it, info: wanted === undefined ? info : { ...info, name: wanted } }
        },
        'session_updated',
      )
      crashPoint('change.after')
    })
    return { session: session.info }
  }
