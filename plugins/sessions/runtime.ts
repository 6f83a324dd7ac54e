/** What a connected worker tells about its session, and what the end of its program means. */
import { messageOf } from '../../protocol/fault.ts'
import type { Scope } from '../../kernel/scope.ts'
import type { ChildExit, InspectSnapshot, WorkerEvent } from '../../protocol/worker/messages.ts'
import { jobOf, type Host } from './host.ts'
import { endOf, isOver } from './machine.ts'
import type { SessionRecord } from './record.ts'
import type { Session } from './session.ts'
import type { WorkerLink } from './worker-link.ts'

/**
 * Workers kept for the last output of ended sessions. Each costs a process; past this the oldest is let go before its
 * retention is over, so that thousands of short sessions cannot exhaust the machine.
 */
const MAX_RETAINED_WORKERS = 16
const RETIRE_GRACE_MS = 1_000

/** Called when the connection to a worker whose program should still run is gone: finds out why, later and again. */
export type Examine = (session: Session) => void

/** Makes `link` the session's connection; events from now on are the session's. */
export function connectSession(host: Host, session: Session, link: WorkerLink, scope: Scope, examine: Examine): void {
  session.connect(link, scope)
  session.resizeSequence = 0
  link.attend(
    (event) => take(host, session, event, examine),
    () => {
      if (session.link === link) connectionLost(host, session, examine)
    },
  )
}

function take(host: Host, session: Session, event: WorkerEvent, examine: Examine): void {
  switch (event.type) {
    case 'output_advanced':
      session.progress.outputOffset = event.next_offset
      session.progress.outputAtMs = host.kernel.clock.now()
      session.progress.outputAtMonotonicMs = host.kernel.clock.monotonic()
      return session.changed()
    case 'terminal_changed':
      session.progress.watermark = event.watermark
      return session.changed()
    case 'child_exited':
      return programEnded(host, session, event.exit)
    case 'runtime_fault':
      host.log.warn({ session_id: session.id, code: event.error.code, problem: event.error.message }, 'worker fault')
      return faulted(host, session, examine)
    case 'resized_by_client':
      return resized(host, session, event.dimensions)
    case 'cwd_reported':
      if (event.cwd === session.info.cwd && session.info.cwd_source === 'osc7') return
      return host.registry.observe(
        session,
        (it) => ({ ...it, info: { ...it.info, cwd: event.cwd, cwd_source: 'osc7' } }),
        'session_updated',
      )
    case 'stream_opened':
      return host.attachments.opened(session, event.stream_id)
    case 'stream_closed':
      return host.attachments.closed(session, event.stream_id, event.reason, event.error)
    case 'runtime_started':
    case 'identity_changed':
      return
  }
}

/** Answers of requests in flight arrive in the same burst as the fault; they are read before the connection goes. */
const FAULT_SETTLES_MS = 20

/** The worker could not prove an orderly end; what remains is decided like a lost runtime. */
function faulted(host: Host, session: Session, examine: Examine): void {
  session.scope.after(FAULT_SETTLES_MS, 'worker fault', () => {
    if (isOver(session.phase) || session.phase === 'creating') return
    void session.disconnect()
    if (session.phase !== 'unreachable')
      host.registry.move(session, 'link_lost', { reason: 'worker_unavailable', event: 'session_updated' })
    examine(session)
  })
}

/** Tells a new terminal size; nothing when it is the known one. */
export function resized(host: Host, session: Session, to: { columns: number; rows: number }): void {
  if (session.info.cols === to.columns && session.info.rows === to.rows) return
  host.registry.observe(
    session,
    (it) => ({ ...it, info: { ...it.info, cols: to.columns, rows: to.rows } }),
    'session_updated',
  )
}

/** The program is gone and its output complete. The first report counts. */
export function programEnded(host: Host, session: Session, exit: ChildExit): void {
  if (session.phase === 'creating') {
    session.earlyExit = exit
    return
  }
  if (isOver(session.phase) || session.removed) return
  const requested = session.intent === 'stop'
  const { state, exitCode } = endOf(exit, session.intent)
  const ended = (it: SessionRecord): SessionRecord => {
    const { transaction, ...rest } = it
    const { activity: _over, ...info } = it.info
    return {
      ...rest,
      // A removal, or a creation that is undone, goes on after the end; a stop is over with it.
      ...(transaction === undefined || transaction.kind === 'stop' ? {} : { transaction }),
      info: {
        ...info,
        state,
        state_source: 'process',
        ...(exitCode === undefined ? {} : { exit_code: exitCode }),
        ...(exit.output_force_closed ? { output_force_closed: true } : {}),
      },
    }
  }
  host.registry.move(session, 'child_exited', { event: 'session_updated', change: ended })
  session.recheck?.[Symbol.dispose]()
  session.recheck = undefined
  session.changed()
  if (requested) host.registry.tell(session, 'session_stopped')
  retain(host, session)
  host.hooks.ended.call(session.info)
}

/** Keeps the worker of an ended session for its last output, within the bound. */
export function retain(host: Host, session: Session): void {
  if (session.link === undefined) return
  host.retained.push(session)
  while (host.retained.length > MAX_RETAINED_WORKERS) {
    const oldest = host.retained.shift()
    if (oldest !== undefined) void release(host, oldest)
  }
}

/** The worker of the session no longer counts among those kept. */
export function forgetRetained({ retained }: Host, session: Session): void {
  const at = retained.indexOf(session)
  if (at >= 0) retained.splice(at, 1)
}

/** Lets the worker of an ended session go: its terminal is not readable any more. */
async function release(host: Host, session: Session): Promise<void> {
  forgetRetained(host, session)
  await letGo(session)
  await session.disconnect()
  await retireEnded(host, session)
}

/** A worker that only keeps the last output leaves when it is told so, with or without a job. */
export async function letGo(session: Session): Promise<void> {
  const { link } = session
  if (session.phase !== 'ended' || link?.alive !== true) return
  try {
    await link.request('acknowledge_terminal', { scope: session.scopeOf(link) }, RETIRE_GRACE_MS)
  } catch {
    // its retirement ends it as well
  }
}

/** Forgets the job of a worker that has nothing left to do. */
export async function retireEnded(host: Host, session: Session): Promise<void> {
  try {
    await host.supervisor.retire(jobOf(session), RETIRE_GRACE_MS)
  } catch (failure) {
    host.log.warn({ session_id: session.id, problem: messageOf(failure) }, 'the job of an ended worker stays')
  }
}

function connectionLost(host: Host, session: Session, examine: Examine): void {
  void session.disconnect()
  host.attachments.linkLost(session)
  session.changed()
  if (host.scope.closed || session.removed) return
  if (session.phase === 'ended') {
    // The worker's retention is over, or it was ended from outside: only its terminal is gone.
    forgetRetained(host, session)
    void retireEnded(host, session)
    return
  }
  if (session.phase === 'creating' || session.phase === 'lost') return
  if (session.phase !== 'unreachable')
    host.registry.move(session, 'link_lost', { reason: 'worker_connection_lost', event: 'session_updated' })
  examine(session)
}

/** What an inspected worker adds to the record: size, directory, process. */
export function importSnapshot(host: Host, session: Session, snapshot: InspectSnapshot): void {
  const now = new Date(host.kernel.clock.now()).toISOString()
  session.progress.outputOffset = Math.max(session.progress.outputOffset, snapshot.next_offset)
  host.registry.observe(session, (it) => {
    const child = snapshot.child_process
    const size = snapshot.dimensions
    return {
      ...it,
      worker: {
        ...it.worker,
        ...(snapshot.runtime_id === undefined ? {} : { runtime_id: snapshot.runtime_id }),
        ...(child === undefined ? {} : { child }),
      },
      info: {
        ...it.info,
        ...(child === undefined ? {} : { pid: child.pid }),
        ...(size === undefined ? {} : { cols: size.columns, rows: size.rows }),
        ...(snapshot.reported_cwd === undefined ? {} : { cwd: snapshot.reported_cwd, cwd_source: 'osc7' as const }),
        ...(it.info.runtime === undefined
          ? {}
          : {
              runtime: {
                ...(snapshot.runtime_id === undefined ? {} : { worker_instance_id: snapshot.runtime_id }),
                ...it.info.runtime,
                last_connected_at: now,
              },
            }),
      },
    }
  })
}
