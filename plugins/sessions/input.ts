/** Writing to a session's terminal: one gate per session, typed outcomes, and the first prompt of a new session. */
import { ulid } from 'ulid'
import { delay, type Clock } from '../../kernel/clock.ts'
import { INPUT_SILENT_GRACE_MS } from '../../protocol/limits.ts'
import type { TerminalSnapshot } from '../../protocol/worker/messages.ts'
import { faults } from './faults.ts'
import type { Host } from './host.ts'
import { checkText, inputFragments } from './input-text.ts'
import { snapshotOf } from './observe.ts'
import type { Session } from './session.ts'
import { workerFault } from './worker-faults.ts'

/** A write is answered by its own stall bound; this is for a worker that does not answer at all. */
const ANSWER_MS = 15_000

/** Resolves once the terminal took body and submit key. Faults as session.input. */
export async function sendInput(host: Host, session: Session, text: string): Promise<void> {
  const rules = session.record.launch.input
  checkText(text, rules.text_policy)
  session.running()
  await session.enqueueInput(async () => {
    const programPastes = rules.bracketed_paste && text !== '' && (await snapshotOf(session)).bracketed_paste
    const link = session.running()
    const { input } = host.kernel.config
    const deadlineMs = 2 * input.writeStallTimeoutMs + rules.submit_delay_ms + ANSWER_MS
    try {
      await link.request(
        'write_plan',
        {
          scope: session.scopeOf(link),
          plan: { write_id: `w-${ulid()}`, fragments: inputFragments(text, rules, programPastes) },
        },
        deadlineMs,
      )
    } catch (failure) {
      throw workerFault(session.id, failure, { write: true, invalidState: 'session_not_running' })
    }
  })
}

/** The first prompt of a new session. Throws when it was not delivered; the caller rolls the session back. */
export async function deliverInitialInput(
  host: Host,
  session: Session,
  text: string,
  acceptGrace: boolean,
): Promise<void> {
  const { ready } = session.record.launch.input
  const silentMs = Math.min(INPUT_SILENT_GRACE_MS, host.kernel.config.input.startupGraceMs)
  const graceMs = acceptGrace || ready === 'screen_idle' ? host.kernel.config.input.startupGraceMs : silentMs
  const shown = await whenReady(host, session, graceMs)
  if (!shown && ready === 'screen_idle') throw faults.session_input_not_ready({ id: session.id })
  await sendInput(host, session, text)
}

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
    if (session.record.launch.input.ready !== 'screen_idle') {
      if (now.bracketed_paste) return true
      if (prompt === now.watermark) return true
      prompt = showsPrompt(now) ? now.watermark : undefined
    }
    const left = until - clock.monotonic()
    if (left <= 0) return false
    await changes.next(prompt === undefined ? left : Math.min(SETTLED_MS, left), host.scope.signal)
  }
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
      await delay(this.#clock, ms, AbortSignal.any([signal, over.signal])).catch(() => signal.throwIfAborted())
    }
    this.#seen = false
  }

  [Symbol.dispose](): void {
    this.#watch[Symbol.dispose]()
  }
}

/** Pure. The cursor is visible behind text on its row, as behind a prompt. */
export function showsPrompt({ cursor, visible_lines }: TerminalSnapshot): boolean {
  const row = visible_lines[cursor.row] ?? ''
  return cursor.visible && cursor.column > 0 && row.trim() !== ''
}
