/** How an attach can end, what it says and its exit code (docs/decisions/2026-11-30-attach-exit-codes.md). Pure. */
import { constants } from 'node:os'
import type { Session } from '../../client/methods.ts'
import { renderError } from '../render.ts'
import { safeLine } from '../text.ts'

export type Ending =
  | { readonly kind: 'detached' }
  /** The program ended; `session` is its record after that. */
  | { readonly kind: 'ended'; readonly session: Session }
  /** `rescued`: refs that keep what its worktree held; `stays`: the worktree could not be removed. */
  | {
      readonly kind: 'removed'
      readonly byMenu: boolean
      readonly rescued?: readonly string[]
      readonly stays?: boolean
    }
  /** Never attached. */
  | { readonly kind: 'refused'; readonly failure: { readonly msg: string; readonly recover?: string | undefined } }
  /** The stream failed, or it could not be brought back. */
  | { readonly kind: 'dropped'; readonly failure: { readonly msg: string; readonly recover?: string | undefined } }
  | { readonly kind: 'signal'; readonly signal: NodeJS.Signals }
  /** The reader of a pipe left. */
  | { readonly kind: 'output_closed' }
  | { readonly kind: 'switch'; readonly sessionId: string }

export const EXIT_COULD_NOT_ATTACH = 125
export const EXIT_DROPPED = 126
const SIGNAL_BASE = 128

export const hasEnded = (session: Pick<Session, 'state' | 'runtime'>): boolean =>
  session.runtime?.state === 'terminal' ||
  session.state === 'stopped' ||
  session.state === 'done' ||
  session.state === 'failed'

/** The program's own status as a shell tells it; 1 when it was not observed. */
function statusOf(session: Session): number {
  const code = session.exit_code
  return code === undefined ? 1 : code & 0xff
}

export function exitCodeOf(ending: Ending): number {
  switch (ending.kind) {
    case 'detached':
    case 'output_closed':
    case 'switch':
      return 0
    case 'ended':
      return statusOf(ending.session)
    case 'removed':
      return ending.byMenu ? 0 : EXIT_DROPPED
    case 'refused':
      return EXIT_COULD_NOT_ATTACH
    case 'dropped':
      return EXIT_DROPPED
    case 'signal':
      return SIGNAL_BASE + constants.signals[ending.signal]
  }
}

function howItEnded(session: Session): string {
  const code = session.exit_code
  const how = session.state === 'stopped' ? 'was stopped' : 'ended'
  if (code === undefined) return `${how}; its exit status was not observed`
  const signal = Object.entries(constants.signals).find(([, number]) => number === code - SIGNAL_BASE)?.[0]
  return code > SIGNAL_BASE && signal !== undefined ? `${how} (${signal})` : `${how} with exit status ${code}`
}

/** What is said on stderr once the terminal is back to normal. */
export function lineOf(ending: Ending, sessionId: string): string | undefined {
  switch (ending.kind) {
    case 'detached':
      return `[detached; pohunek attach ${safeLine(sessionId)} comes back]`
    case 'ended':
      return `[session ${safeLine(sessionId)} ${howItEnded(ending.session)}]`
    case 'removed':
      return [
        `[session ${safeLine(sessionId)} was removed]`,
        ...(ending.rescued ?? []).map((it) => `[unsaved work of its worktree is kept as ${safeLine(it)}]`),
        ...(ending.stays === true ? ['[its worktree stays; pohunek worktree list says more]'] : []),
      ].join('\n')
    case 'refused':
    case 'dropped':
      return renderError(ending.failure).trimEnd()
    case 'signal':
    case 'output_closed':
    case 'switch':
      return undefined
  }
}
