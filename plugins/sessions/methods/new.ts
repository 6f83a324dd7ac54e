import { messageOf } from '../../../protocol/fault.ts'
import { crashPoint } from '../../../kernel/crash-points.ts'
import type { Handler } from '../../../kernel/plugin.ts'
import type contract from '../contract.ts'
import { checkText } from '../input-text.ts'
import { createSession } from '../create.ts'
import { tracked, type Host } from '../host.ts'
import { deliverInitialInput } from '../initial-input.ts'
import { finishRemoval } from '../remove.ts'
import type { Examine } from '../runtime.ts'
import { newPatience } from '../sweep-session.ts'
import { faults } from '../faults.ts'

/** Creates a session and delivers its first prompt; a prompt that cannot be delivered undoes the creation. */
export const newSession =
  (host: Host, examine: Examine): Handler<(typeof contract.methods)['session.new']> =>
  async (params) => {
    const { input } = params
    if (input !== undefined) checkText(input, 'unrestricted')
    const { session, prompt } = await tracked(host, createSession(host, params, examine))
    if (prompt === undefined) return { ...session.info, ...(input === undefined ? {} : { applied_input: true }) }
    try {
      await deliverInitialInput(host, session, prompt, params.accept_startup_grace === true)
      crashPoint('create.input.written')
    } catch (failure) {
      await session
        .enqueue(async () => {
          // Its record still says creation: all that was made for it goes, where a removal would keep some.
          if (!session.removed) await finishRemoval(host, session, { accept: false, patience: newPatience(host) })
        })
        .catch((problem: unknown) => {
          if (session.removed) return
          host.log.warn(
            { session_id: session.id, problem: messageOf(problem) },
            'a session without its first input is not rolled back yet',
          )
          examine(session)
        })
      throw failure
    }
    await session.enqueue(async () => {
      if (session.removed) throw faults.session_not_found({ id: session.id })
      await host.registry.commit(session, ({ transaction: _delivered, ...record }) => record)
      crashPoint('create.input.committed')
    })
    return { ...session.info, applied_input: true }
  }
