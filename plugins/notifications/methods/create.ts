import type { Handler } from '../../../kernel/plugin.ts'
import type { SessionService } from '../../sessions/api.ts'
import type contract from '../contract.ts'
import { faults } from '../faults.ts'
import type { Inbox } from '../inbox.ts'
import { recordOf, type Reported } from '../moment.ts'
import type { Moments } from '../moments.ts'
import { keeps, type PolicyFile } from '../policy.ts'
import { admitsHooks, isHook, isOutside } from '../rank.ts'
import { draftOf, momentKey, momentOf, type Draft } from '../request.ts'
import type { CreateParams } from '../types.ts'

export interface Creation {
  readonly inbox: Inbox
  readonly moments: Moments
  readonly policy: PolicyFile
  readonly sessions: Pick<SessionService, 'get'>
  readonly mint: () => string
}

export const create =
  (creation: Creation): Handler<(typeof contract.methods)['notification.create']> =>
  async (params) => {
    const { policy, sessions, moments } = creation
    const session = params.session_id === undefined ? undefined : sessions.get(params.session_id)
    const draft = draftOf(params, session)
    const { provider } = draft.source
    const { kind, session_id: sessionId } = draft
    if (session !== undefined && isHook(provider) && !admitsHooks(session))
      throw faults.hook_not_admitted({ id: session.id, runtime: session.agent_base, provider })
    const keep = keeps(policy.now, provider, kind)
    const disabled = faults.notification_kind_disabled({ kind, provider })
    const moment = momentOf(kind)
    if (moment === undefined || sessionId === undefined || draft.dedupe_key !== momentKey(moment, sessionId)) {
      if (!keep) throw disabled
      return await addAtOnce(creation, draft)
    }
    const counts = session !== undefined && isHook(provider)
    if (!keep && !counts) throw disabled
    const { created, record }: Reported = await moments.report({ draft, sessionId, moment, keep, counts })
    if (!keep || record === undefined) throw disabled
    return { created, record }
  }

/** A record that waits for no window. What a hook or the projector reports twice is there once. */
export async function addAtOnce({ inbox, mint }: Creation, draft: Draft): Promise<Required<Reported>> {
  const { session_id: sessionId, source_id: sourceId, source } = draft
  if (sessionId !== undefined && sourceId !== undefined && !isOutside(source.provider)) {
    const known = inbox
      .ofSession(sessionId)
      .find((it) => it.source.provider === source.provider && it.source_id === sourceId)
    if (known !== undefined) return { created: false, record: known }
  }
  const record = await inbox.add(recordOf(draft, mint()))
  return { created: true, record }
}

/** For the projector: a kind the policy disables is no record. */
export async function addKept(creation: Creation, params: CreateParams): Promise<void> {
  const { policy, sessions } = creation
  if (!keeps(policy.now, params.source.provider, params.kind)) return
  await addAtOnce(creation, draftOf(params, sessions.get(params.session_id ?? '')))
}
