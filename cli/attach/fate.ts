/** Asks the daemon what became of a session whose stream is over or could not be opened. */
import { existsSync, readlinkSync } from 'node:fs'
import { basename } from 'node:path'
import { monotonicMs, pause } from '../../client/clock.ts'
import type { Client } from '../../client/client.ts'
import { ClientError, errorOf } from '../../client/errors.ts'
import type { MethodResult, Session } from '../../client/methods.ts'
import { Fault } from '../../protocol/fault.ts'
import { resolveTarget } from '../target.ts'
import { hasEnded, type Ending } from './ending.ts'
import type { MenuFacts } from './menu.ts'

/** Between the end of a stream and the record of the program's end lies the worker's drain and one message. */
const END_KNOWN_MS = 1_000
const END_POLL_MS = 15

/** Why a stream is over: an ending, or an interruption that may heal. `removing`: this client asked for the removal. */
export async function whyOver(
  client: Client,
  id: string,
  streamId: string | undefined,
  removing: boolean,
): Promise<Ending | 'interrupted'> {
  try {
    if (streamId !== undefined) {
      const { error } = await client.call('session.detach', { stream_id: streamId })
      const failure = errorOf(error)
      if (failure !== undefined) return { kind: 'dropped', failure: bodyOf(failure) }
    }
    const end = monotonicMs() + END_KNOWN_MS
    for (;;) {
      const session = await client.call('session.inspect', id)
      if (session.runtime?.state === 'lost') return lost(session)
      if (hasEnded(session)) return { kind: 'ended', session }
      if (monotonicMs() > end) return 'interrupted'
      await pause(END_POLL_MS)
    }
  } catch (failure) {
    if (failure instanceof ClientError && failure.code === 'session_not_found')
      return { kind: 'removed', byMenu: removing }
    return 'interrupted' // the daemon is away: what became of the session is not known yet
  }
}

/** Attaching failed at once: perhaps because the program had ended before. */
export async function whyRefused(client: Client, id: string, failure: Error): Promise<Ending> {
  const code = failure instanceof ClientError ? failure.code : undefined
  if (code === 'session_not_running' || code === 'session_terminal_unavailable') {
    const session = await client.call('session.inspect', id).catch(() => undefined)
    if (session !== undefined && hasEnded(session)) return { kind: 'ended', session }
  }
  return { kind: 'refused', failure: bodyOf(failure) }
}

const bodyOf = (failure: Error): { msg: string; recover?: string | undefined } =>
  failure instanceof Fault ? { msg: failure.message, recover: failure.recover } : { msg: failure.message }

function lost(session: Session): Ending {
  const reason = session.runtime?.loss_reason
  return {
    kind: 'dropped',
    failure: {
      msg: `the runtime of session ${session.id} is lost${reason === undefined ? '' : ` (${reason})`}`,
      recover: 'pohunek session inspect shows its state',
    },
  }
}

/** A detached person is told how to come back; asking for the shortest way must not keep the shell waiting. */
const HINT_MS = 500

/**
 * Rows of the picture a session left on a terminal of `size`; undefined where nobody tells, or where the session's
 * terminal was another one's.
 */
export async function usedRows(
  client: Client,
  id: string,
  ending: Ending,
  size: { readonly cols: number; readonly rows: number } | undefined,
): Promise<number | undefined> {
  if (size === undefined || (ending.kind !== 'detached' && ending.kind !== 'ended')) return undefined
  try {
    const screen = await client.call('session.screen', { session_id: id }, { timeoutMs: HINT_MS })
    if (screen.alternate_screen || screen.dimensions.rows !== size.rows || screen.dimensions.cols !== size.cols)
      return undefined
    return screen.visible_lines.findLastIndex((it) => it.trimEnd() !== '') + 1
  } catch {
    return undefined // no daemon, or the session is gone
  }
}

/** How to name a session in a command: by its name where that means this session alone, else by its id. */
export async function targetOf(client: Client, id: string): Promise<string> {
  try {
    const options = { timeoutMs: HINT_MS }
    const { name } = await client.call('session.inspect', id, options)
    if (name === undefined || name.includes('/')) return id
    return resolveTarget(name, await client.listSessions([], options)) === id ? shellWord(name) : id
  } catch {
    return id // no daemon, or another session has that name
  }
}

const shellWord = (text: string): string =>
  /^[\w.@%+:,][\w.@%+:,-]*$/.test(text) ? text : `'${text.replaceAll("'", String.raw`'\''`)}'`

/** Where the program of a local session is now: the kernel knows, a shell need not report it. */
export function currentDirectory({ pid, cwd }: Pick<Session, 'pid' | 'cwd'>): string {
  try {
    const found = readlinkSync(`/proc/${pid}/cwd`)
    return existsSync(found) ? found : cwd
  } catch {
    return cwd // ended, or no such file system here
  }
}

/** Where a session beside this one starts: in the same worktree, whatever the program looks at meanwhile. */
export function besideDirectory(session: Pick<Session, 'pid' | 'cwd' | 'worktree_path'>): string {
  const current = currentDirectory(session)
  const { worktree_path: tree } = session
  return tree === undefined || current === tree || current.startsWith(`${tree}/`) ? current : tree
}

/** A managed tree's folder begins with the id of the session it was made for. */
const worktreeOf = ({ id, worktree_path: path }: Session): MenuFacts['worktree'] =>
  path === undefined ? undefined : basename(path).startsWith(`${id}-`) ? 'own' : 'other'

/** The removal chosen in the menu, with what became of the worktree. */
export const removedByMenu = ({ rescued, worktrees_failed }: MethodResult<'session.remove'>): Ending => ({
  kind: 'removed',
  byMenu: true,
  ...(rescued === undefined ? {} : { rescued: rescued.map((it) => it.ref) }),
  ...(worktrees_failed > 0 ? { stays: true } : {}),
})

/** The menu's header. */
export const factsOf = (session: Session): MenuFacts => ({
  name: session.name ?? session.id,
  named: session.name,
  cwd: session.cwd,
  host: 'local',
  project: session.project_label ?? session.project_id,
  branch: session.branch,
  worktree: worktreeOf(session),
  state: session.activity === undefined ? session.state : `${session.state}, ${session.activity}`,
})
