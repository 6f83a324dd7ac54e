/** What other plugins may do with sessions (api.ts), over the registry. */
import type { ActivityReader, SessionService } from './api.ts'
import type { Host } from './host.ts'
import { inputPlanOf, withFields } from './input-rules.ts'
import { snapshotOf } from './observe.ts'
import { findProgram } from './program.ts'
import type { Session } from './session.ts'
import type { Examine } from './runtime.ts'
import type { SessionRemoveResult } from './types.ts'
import { removeAndAnswer } from './methods/remove.ts'

/** The service behind the `Sessions` token; its promises are those of SessionService. */
export function sessionService(host: Host, examine: Examine): SessionService {
  const { registry } = host
  const live = (id: string): Session | undefined => {
    const session = registry.find(id)
    return session?.phase === 'running' && session.link?.alive === true ? session : undefined
  }
  return {
    hooks: host.hooks,
    get: (id) => registry.find(id)?.info,
    list: () => registry.list(),
    inputPlan: (id) => inputPlanOf(registry.get(id).record.launch.input),
    runtime: (id) => {
      const { runtime_id, generation } = live(id)?.record.worker ?? {}
      return runtime_id === undefined
        ? undefined
        : { worker_instance_id: runtime_id, runtime_generation: String(generation) }
    },
    root: (id) => {
      const child = live(id)?.record.worker.child
      return child && { pid: child.pid, startIdentity: child.start_identity }
    },
    snapshot: (id) => snapshotOf(registry.get(id)),
    watch: (id, changed) => registry.get(id).watch(changed),
    show: (id, fields, quiet) => {
      const session = registry.find(id)
      if (session === undefined) return
      const next = withFields(session.info, fields)
      if (next === session.info) return
      registry.observe(
        session,
        (it) => ({ ...it, info: withFields(it.info, fields) }),
        quiet === undefined ? 'session_updated' : undefined,
      )
    },
    record: (id, fields) => {
      const session = registry.get(id)
      return session.enqueue(async () => {
        if (withFields(session.info, fields) === session.info) return
        await registry.commit(session, (it) => ({ ...it, info: withFields(it.info, fields) }), 'session_updated')
      })
    },
    progress: (id) => {
      const session = registry.find(id)
      return session?.link?.alive === true ? { ...session.progress } : undefined
    },
    waiter: (id) => host.waiters.enter(id === undefined ? undefined : registry.get(id)),
    remove: (id): Promise<SessionRemoveResult> => removeAndAnswer(host, examine, registry.get(id), false),
    findProgram: (program) => findProgram(program, host.programs, undefined),
    provideActivity: (reader: ActivityReader) => {
      if (host.activity !== undefined) throw new Error('activity is already provided')
      host.activity = reader
      return { [Symbol.dispose]: () => void (host.activity = undefined) }
    },
  }
}
