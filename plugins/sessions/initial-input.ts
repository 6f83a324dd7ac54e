/** The first prompt of a new session: written once the program shows that it reads, or not at all. */
import { delay, type Clock } from '../../kernel/clock.ts'
import { firstOf } from '../../platform/signals.ts'
import { Fault } from '../../protocol/fault.ts'
import { INPUT_SILENT_GRACE_MS } from '../../protocol/limits.ts'
import type { TerminalSnapshot } from '../../protocol/worker/messages.ts'
import { faults } from './faults.ts'
import type { Host } from './host.ts'
import { sendInput } from './input.ts'
import { snapshotOf } from './observe.ts'
import type { Session } from './session.ts'

/** Throws when it was not delivered; the caller rolls the session back. */
export async function deliverInitialInput(
  host: Host,
  session: Session,
  text: string,
  acceptGrace: boolean,
): Promise<void> {
  const { ready, startup_grace_ms = 0 } = session.record.launch.input
  const fullMs = Math.max(host.kernel.config.input.startupGraceMs, startup_grace_ms)
  const graceMs = acceptGrace || ready === 'screen_idle' ? fullMs : Math.min(INPUT_SILENT_GRACE_MS, fullMs)
  const shown = await whenReady(host, session, graceMs)
  if (!shown && ready === 'screen_idle') throw faults.session_input_not_ready({ id: session.id })
  try {
    await sendInput(host, session, { text }, host.scope.signal)
  } catch (failure) {
    // What was shown a moment ago is something else now: nothing was sent.
    if (failure instanceof Fault && REFUSED.has(failure.code))
      throw faults.session_input_not_ready({ id: session.id }, failure)
    throw failure
  }
}

const REFUSED: ReadonlySet<string> = new Set([
  'session_input_no_prompt',
  'session_input_blocked',
  'session_input_busy',
  'session_input_draft',
  'session_input_unsubmitted',
])

/** A prompt that stays the same this long waits for input. */
const SETTLED_MS = 100

/** True once the program shows a prompt or enabled bracketed paste; false when the grace is over. Throws when it ended. */
async function whenReady(host: Host, session: Session, graceMs: number): Promise<boolean> {
  const { clock } = host.kernel
  const until = clock.monotonic() + graceMs
  using changes = new Changes(session, clock) // from before the first look: nothing is missed between two
  let prompt: number | undefined
  for (;;) {
    session.running()
    const now = await snapshotOf(session)
    if (session.record.launch.input.ready === 'bracketed_paste' && now.bracketed_paste) return true
    if (session.record.launch.input.ready === 'grace' && now.bracketed_paste) return true
    const shown = readyPrompt(host, session, now)
    if (shown && prompt === now.watermark) return true
    prompt = shown ? now.watermark : undefined
    const left = until - clock.monotonic()
    if (left <= 0) return false
    await changes.next(prompt === undefined ? left : Math.min(SETTLED_MS, left), host.scope.signal)
  }
}

/** Only the agent's own prompt counts where its runtime says so: what looks like one may be a dialog. */
function readyPrompt(host: Host, session: Session, picture: TerminalSnapshot): boolean {
  if (session.record.launch.input.ready !== 'screen_idle') return showsPrompt(picture)
  return host.activity?.showsPrompt(session.id, picture) === true
}

/** What the worker tells about a session since the last time somebody waited for it. */
class Changes implements Disposable {
  readonly #clock: Clock
  readonly #watch: Disposable
  #seen = false
  #wake: (() => void) | undefined

  constructor(session: Session, clock: Clock) {
    this.#clock = clock
    this.#watch = session.watch(() => {
      this.#seen = true
      this.#wake?.()
    })
  }

  /** Resolves at the next change, at once when there was one already, or after `ms`. Rejects when the signal aborts. */
  async next(ms: number, signal: AbortSignal): Promise<void> {
    if (!this.#seen) {
      const over = new AbortController()
      this.#wake = () => over.abort()
      using either = firstOf(signal, over.signal)
      await delay(this.#clock, ms, either.signal).catch(() => signal.throwIfAborted())
    }
    this.#seen = false
  }

  [Symbol.dispose](): void {
    this.#watch[Symbol.dispose]()
  }
}

/** Pure. The cursor is visible behind text on its row, as behind a prompt. */
function showsPrompt({ cursor, visible_lines }: TerminalSnapshot): boolean {
  const row = visible_lines[cursor.row] ?? ''
  return cursor.visible && cursor.column > 0 && row.trim() !== ''
}
