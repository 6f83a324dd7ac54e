/**
 * One sweep after the other.
 * Invariants
 *  1. Each removal goes the way of session.remove, whose wish is durable: a sweep that dies half way left only whole
 *     removals and at most one that the next start finishes.
 *  2. A candidate is judged again right before it is removed: what came alive meanwhile stays.
 *  3. What was not looked at is not proven empty: past the bound of checkouts a session is held.
 */
import type { Clock } from '../../kernel/clock.ts'
import type { Log } from '../../kernel/log.ts'
import { diskUsage } from '../../platform/disk-usage.ts'
import { Fault, messageOf } from '../../protocol/fault.ts'
import type { NotificationService } from '../notifications/api.ts'
import type { SessionService } from '../sessions/api.ts'
import type { WorktreeService } from '../worktrees/api.ts'
import type { HoldReason, RetentionPolicy, RetentionResult, SweptSession } from './contract.ts'
import { isPinned, isUnconfirmed, overdue, type Candidate } from './select.ts'

const MAX_CHECKOUTS = 64
const MAX_LISTED = 200

export interface SweepEdges {
  readonly sessions: SessionService
  readonly worktrees: WorktreeService
  readonly notifications: NotificationService
  readonly policy: () => RetentionPolicy
  readonly clock: Clock
  readonly log: Log
}

export interface SweepRequest {
  readonly dryRun: boolean
  /** Lowers the policy's cap. */
  readonly limit: number | undefined
}

export class Sweeps {
  readonly #edges: SweepEdges
  readonly #startWallMs: number
  readonly #startMs: number
  #last: Promise<unknown> = Promise.resolve()
  /** Sessions whose trees the last sweep did not come to. */
  #waiting: ReadonlySet<string> = new Set()

  constructor(edges: SweepEdges) {
    this.#edges = edges
    this.#startWallMs = edges.clock.now()
    this.#startMs = edges.clock.monotonic()
  }

  /** Waits for the sweep before it. `signal` ends it between two removals. */
  run(request: SweepRequest, signal: AbortSignal): Promise<RetentionResult> {
    const sweep = (): Promise<RetentionResult> => this.#sweep(request, signal)
    const result = this.#last.then(sweep, sweep)
    this.#last = result.catch(() => undefined)
    return result
  }

  /** A clock that is set forward, or a machine that slept, makes nothing older than this daemon has seen (FC-dd53). */
  #nowMs(): number {
    const { clock } = this.#edges
    return Math.min(clock.now(), this.#startWallMs + clock.monotonic() - this.#startMs)
  }

  async #sweep({ dryRun, limit }: SweepRequest, signal: AbortSignal): Promise<RetentionResult> {
    const { sessions, policy, worktrees } = this.#edges
    const all = sessions.list()
    const candidates = overdue(all, policy(), this.#nowMs())
    const cap = Math.min(policy().max_removals_per_sweep, limit ?? Number.MAX_SAFE_INTEGER)
    const listed: SweptSession[] = []
    const result: RetentionResult = {
      dry_run: dryRun,
      examined: all.length,
      eligible: 0,
      held: 0,
      removed: 0,
      worktrees_cleaned: 0,
      worktrees_failed: 0,
      failed: 0,
      sessions: listed,
    }
    const inspected = this.#turns(candidates, dryRun)
    for (const candidate of candidates) {
      signal.throwIfAborted()
      const { id } = candidate
      const path = worktrees.boundTo(id)
      const hold =
        this.#kept(id) ??
        (path === undefined ? undefined : inspected.has(id) ? await worktrees.hold(id, signal) : 'worktree_unknown') // 3
      const told: SweptSession = {
        session_id: id,
        reason: candidate.reason,
        age_secs: candidate.ageSecs,
        removed: false,
        ...(path === undefined ? {} : { worktree_path: path }),
        ...(hold === undefined ? {} : { hold }),
      }
      if (hold !== undefined) {
        result.held++
        this.#edges.log.info({ session_id: id, hold }, 'a session over its time is held')
      } else if (result.eligible < cap) {
        result.eligible++
        if (!dryRun) Object.assign(told, await this.#remove(candidate, result))
      } else continue // the next sweep's
      if (listed.length < MAX_LISTED) listed.push(told)
      if (dryRun && path !== undefined && hold !== 'worktree_unknown') Object.assign(told, await measured(path, signal))
    }
    return result
  }

  /** Why a session must stay, whatever its tree holds. */
  #kept(id: string): HoldReason | undefined {
    const { sessions, notifications } = this.#edges
    const info = sessions.get(id)
    if (info !== undefined && isUnconfirmed(info)) return 'processes_unconfirmed'
    if (info !== undefined && isPinned(info)) return 'pinned'
    return notifications.hasUnread(id) ? 'notification_unread' : undefined
  }

  /** Whose trees this sweep looks into: who had to wait the last time comes first, or old held ones would hide the rest. */
  #turns(candidates: readonly Candidate[], dryRun: boolean): ReadonlySet<string> {
    const ids = candidates
      .map((it) => it.id)
      .filter((id) => this.#edges.worktrees.boundTo(id) !== undefined && this.#kept(id) === undefined)
    const order = [...ids.filter((id) => this.#waiting.has(id)), ...ids.filter((id) => !this.#waiting.has(id))]
    if (!dryRun) this.#waiting = new Set(order.slice(MAX_CHECKOUTS))
    return new Set(order.slice(0, MAX_CHECKOUTS))
  }

  async #remove(candidate: Candidate, result: RetentionResult): Promise<Pick<SweptSession, 'removed' | 'rescued'>> {
    const { sessions, policy, log } = this.#edges
    const now = sessions.get(candidate.id)
    if (now === undefined || overdue([now], policy(), this.#nowMs()).length === 0) return stays // 2
    if (this.#kept(candidate.id) !== undefined) return stays
    try {
      const { worktrees_removed, worktrees_failed, rescued } = await sessions.remove(candidate.id)
      result.removed++
      result.worktrees_cleaned += worktrees_removed
      result.worktrees_failed += worktrees_failed
      if (worktrees_failed > 0) log.warn({ session_id: candidate.id }, 'the worktree of a removed session is left')
      return { removed: true, ...(rescued === undefined ? {} : { rescued }) }
    } catch (failure) {
      if (sessions.get(candidate.id) === undefined) return stays // somebody else removed it meanwhile
      result.failed++
      const code = failure instanceof Fault ? failure.code : undefined
      log.warn({ session_id: candidate.id, code, problem: messageOf(failure) }, 'a session could not be removed')
      return stays
    }
  }
}

const stays = { removed: false } as const

async function measured(
  path: string,
  signal: AbortSignal,
): Promise<Pick<SweptSession, 'worktree_bytes' | 'worktree_bytes_partial'>> {
  const size = await diskUsage(path, signal)
  if (size === undefined) return {}
  return { worktree_bytes: size.bytes, ...(size.partial ? { worktree_bytes_partial: true } : {}) }
}
