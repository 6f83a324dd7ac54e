/**
 * Turns what the daemon itself sees of sessions into reports (contract/methods.md "Projector"). Ours beside the table:
 * the end of a turn is reported as well, since not every agent has hooks.
 */
import type { ActivityChange, DetectionService } from '../detection/api.ts'
import type { SessionService } from '../sessions/api.ts'
import type { SessionInfo } from '../sessions/types.ts'
import type { Report } from './moment.ts'
import type { Moments } from './moments.ts'
import { PROJECTOR } from './rank.ts'
import { draftOf, momentKey } from './request.ts'
import { isOver } from './sessions.ts'
import type { CreateParams, NotificationKind } from './types.ts'
import type { Work } from './work.ts'

export interface ProjectorEdges {
  readonly moments: Moments
  readonly keeps: (provider: string, kind: NotificationKind) => boolean
  /** Adds a record at once; the same source again is no-op. */
  readonly add: (params: CreateParams) => Promise<unknown>
  readonly sessions: Pick<SessionService, 'get' | 'hooks'>
  readonly detection: Pick<DetectionService, 'hooks'>
  readonly work: Work
}

type Told = Pick<CreateParams, 'kind' | 'severity' | 'title' | 'body' | 'metadata'>

export function project(edges: ProjectorEdges): void {
  const { moments, sessions, detection, work } = edges
  const take = (what: string, sessionId: string, reported: Promise<unknown>): void =>
    work.run(`${what} could not be reported`, reported, { sessionId })
  detection.hooks.changed.tap('notifications', (change) => {
    const { sessionId, now } = change
    if (now === undefined) return
    const { blocked, turnEnded } = moments.activity(sessionId, now.activity, change)
    const session = sessions.get(sessionId)
    if (session === undefined || isOver(session)) return
    if (blocked) take('a waiting agent', sessionId, moments.report(momentReport(edges, session, change, 'attention')))
    if (turnEnded) take('an ended turn', sessionId, moments.report(turnReport(edges, session, change)))
  })
  sessions.hooks.changed.tap('notifications', (now, before) => {
    if (!isOver(now) || isOver(before)) return
    moments.ended(now.id)
    const told = endOf(now)
    if (told !== undefined) take('the end of a session', now.id, edges.add(paramsOf(now, told, 'state', now.state)))
  })
  sessions.hooks.removed.tap('notifications', ({ id }) => moments.ended(id))
}

/** A turn that failed is an error and no completed turn; waits hear of the end as of any other. */
function turnReport(edges: ProjectorEdges, session: SessionInfo, change: ActivityChange): Report {
  const { failedAt, now } = change
  const report = momentReport(edges, session, change, 'turn')
  if (failedAt === undefined || now === undefined) return report
  const told: Told = {
    kind: 'error',
    severity: 'error',
    title: `${nameOf(session)}: a turn failed`,
    body: 'The agent reports that its turn ended with an error.',
    metadata: { reason: 'turn_failed' },
  }
  // The same report is the same failure, whichever daemon sees it.
  const failure = `${now.runtime.worker_instance_id}:${Math.round(failedAt)}`
  return { ...report, keep: false, beside: paramsOf(session, told, 'agent_state', failure) }
}

function momentReport(
  edges: ProjectorEdges,
  session: SessionInfo,
  change: ActivityChange,
  moment: 'attention' | 'turn',
): Report {
  const { now, why, askedAt } = change
  const name = nameOf(session)
  const told: Told =
    moment === 'attention'
      ? {
          kind: 'agent_blocked',
          severity: 'action_required',
          title: `${name} waits for you`,
          body: why ?? 'The agent asks something.',
          metadata: { reason: 'blocked' },
        }
      : {
          kind: 'turn_completed',
          severity: 'info',
          title: `${name} finished its turn`,
          body: '',
          metadata: { reason: 'idle' },
        }
  const params = paramsOf(session, told, 'agent_state', `${now?.epoch}:${now?.revision}`)
  const draft = draftOf({ ...params, dedupe_key: momentKey(moment, session.id) }, session)
  return {
    draft,
    sessionId: session.id,
    moment,
    keep: edges.keeps(PROJECTOR, told.kind),
    counts: true,
    projected: true,
    ...(askedAt === undefined ? {} : { askedAt }),
  }
}

/** A requested stop only resolves. */
function endOf({ name, agent, state, exit_code: code }: SessionInfo): Told | undefined {
  const who = name ?? agent
  if (state === 'done') {
    const title = `${who} ended`
    return { kind: 'session_finished', severity: 'success', title, body: '', metadata: { summary: 'session_finished' } }
  }
  if (state !== 'failed') return undefined
  const reason = code === undefined ? 'failed' : `exit_code=${code}`
  const body = code === undefined ? 'The program of the session is lost.' : `The program ended with exit code ${code}.`
  return { kind: 'error', severity: 'error', title: `${who} failed`, body, metadata: { reason } }
}

const nameOf = ({ name, agent, active_agent: active }: SessionInfo): string => name ?? active ?? agent

function paramsOf(session: SessionInfo, told: Told, event: string, transition: string): CreateParams {
  return {
    ...told,
    source: { provider: PROJECTOR, provider_event: event, host_local_source_id: session.id },
    session_id: session.id,
    source_id: `projector:${session.id}:${told.kind}:${transition}`,
  }
}
