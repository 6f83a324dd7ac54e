/**
 * The session's terminal state, fed from the output ring. Bytes reach clients first and are parsed later.
 * Invariants
 *  1. `parsed` is the ring offset up to which the picture is true; it never skips a byte that could show.
 *  2. A picture never ends inside a synchronized update (mode 2026) that is younger than its bound: parsing stops in
 *     front of it until it closes.
 *  3. Parsing is synchronous and in slices, so that reading and typing go on between two slices.
 */
import type { Scope } from '../kernel/scope.ts'
import type { Clock } from '../kernel/clock.ts'
import type { OutputRing } from './ring.ts'
import type { TerminalSnapshot } from '../protocol/worker/messages.ts'
import { SCROLLBACK_ROWS, TERMINAL_MAX_CELLS } from '../protocol/limits.ts'
import { Asking, endsInQuery, type Asked } from './asking.ts'
import { Evidence, STATE_ANSWER } from './evidence.ts'
import { StickyModes } from './modes.ts'
import { repaint } from './repaint.ts'
import { skippableTo } from './skip.ts'
import { visibleScreen } from './snapshot.ts'
import { createEmulator, GROUND, type Emulator } from './xterm.ts'

/** Quiet time after which what arrived is parsed: longer delays the screen, shorter parses between two keystrokes. */
const QUIET_MS = 3
/** Steady output that never pauses is parsed at the latest after this. */
const MAX_AGE_MS = 50
/** From this backlog on parsing runs in every turn of the loop. */
const BUSY_BYTES = 524_288
/** From here the terminal asks for the output to be held. It must fit the ring with room for the clients. */
const PAUSE_BYTES = 4_194_304
const RESUME_BYTES = 1_048_576
const SLICE_BYTES = 65_536
/** What a screen read may parse on the spot (about 5 ms); more goes in slices. */
const DIRECT_BYTES = 262_144
/** The most one read of a terminal gives on Linux. */
const FULL_READ_BYTES = 4_095
/** A usual screen; a larger one is made anew each time rather than kept. */
const KEPT_JSON_CHARS = 32_768
const SYNC_BOUND_MS = 1_000
const SYNC_BEGIN = Buffer.from('\x1b[?2026h')
const SYNC_END = Buffer.from('\x1b[?2026l')
/** How far back the start of an unfinished sequence is looked for. */
const SEQUENCE_REACH_BYTES = 1_048_576
const ESC = Buffer.from('\x1b')

export interface TerminalHooks {
  asked: Asked
  /** An answer no client has a part in. */
  answer: (text: string) => void
  foregroundGroup: () => number | undefined
  cwdReported: (cwd: string) => void
  /** New content was parsed. */
  changed: (watermark: number) => void
  /** The backlog is too long (true) or short again (false). */
  hold: (on: boolean) => void
  /** The emulator threw; parsing goes on behind what it was given. */
  parseFailed: (failure: unknown) => void
}

export interface Picture {
  bytes: Buffer
  /** Live bytes go on from here. */
  offset: number
}

export class ScreenTerminal {
  readonly #ring: OutputRing
  readonly #clock: Clock
  readonly #scope: Scope
  readonly #hooks: TerminalHooks
  readonly #emulator: Emulator
  readonly #modes: StickyModes
  readonly #asking: Asking
  readonly #evidence: Evidence
  readonly #busyBytes: number
  readonly #pauseBytes: number
  readonly #resumeBytes: number
  #parsed = 0
  #dueSince: number | undefined
  #lastOutput = 0
  #timer: Disposable | undefined
  #slicing = false
  #holding = false
  /** The synchronized update parsing waits in front of (2). */
  #sync: { offset: number; since: number } | undefined
  #waiting: { offset: number; resolve: () => void }[] = []
  /** The last snapshot while nothing was parsed or resized since. */
  #json: string | undefined

  constructor(options: {
    columns: number
    rows: number
    ring: OutputRing
    clock: Clock
    scope: Scope
    hooks: TerminalHooks
    /** Made before its size was known; nothing was written to it. */
    emulator?: Emulator | undefined
  }) {
    this.#ring = options.ring
    this.#clock = options.clock
    this.#scope = options.scope
    this.#hooks = options.hooks
    // A small ring overwrites sooner: what is not parsed yet must never be.
    this.#busyBytes = Math.min(BUSY_BYTES, options.ring.capacity / 8)
    this.#pauseBytes = Math.min(PAUSE_BYTES, options.ring.capacity / 4)
    this.#resumeBytes = Math.min(RESUME_BYTES, options.ring.capacity / 8)
    this.#emulator = sized(options.emulator, options.columns, options.rows)
    const buffers = this.#emulator.core._bufferService.buffers
    this.#modes = new StickyModes(this.#emulator.parser, {
      alternateActive: () => buffers.active === buffers.alt,
      cwdReported: options.hooks.cwdReported,
    })
    this.#evidence = new Evidence(this.#emulator.parser, options.clock, {
      asked: () => options.hooks.answer(STATE_ANSWER),
      foregroundGroup: options.hooks.foregroundGroup,
    })
    this.#emulator.onTitleChange((title) => {
      this.#modes.title = title.slice(0, 4_096)
      this.#evidence.titleSet(this.#modes.title)
    })
    this.#asking = new Asking(this.#emulator, this.#modes, options.hooks.asked)
  }

  get columns(): number {
    return this.#emulator.core.cols
  }
  get rows(): number {
    return this.#emulator.core.rows
  }
  get parsed(): number {
    return this.#parsed
  }
  get reportedCwd(): string | undefined {
    return this.#modes.cwd
  }
  learn(kind: string, reply: string): void {
    this.#asking.learn(kind, reply)
  }

  /** See TerminalEvidence.keys_at. */
  keysSent(): void {
    this.#evidence.keysSent()
    this.#json = undefined
  }

  /** `bytes` were just appended to the ring. */
  outputArrived(bytes: Buffer): void {
    const backlog = this.#ring.end - this.#parsed
    this.#lastOutput = this.#clock.monotonic()
    this.#dueSince ??= this.#lastOutput
    if (backlog >= this.#busyBytes) {
      if (backlog >= this.#pauseBytes) this.#setHolding(true)
      return this.#startSlicing()
    }
    // A full read goes on; who asks stops to wait, so its read is short.
    if (bytes.length < FULL_READ_BYTES && backlog < DIRECT_BYTES && endsInQuery(bytes))
      return this.#parseTo(this.#ring.end)
    this.#timer ??= this.#scope.after(QUIET_MS, 'parse', () => this.#quiet())
  }

  #quiet(): void {
    this.#timer = undefined
    if (this.#dueSince === undefined) return
    const now = this.#clock.monotonic()
    const since = now - this.#lastOutput
    if (since < QUIET_MS - 0.5 && now - this.#dueSince < MAX_AGE_MS) {
      this.#timer = this.#scope.after(QUIET_MS - since, 'parse', () => this.#quiet())
      return
    }
    this.#startSlicing()
  }

  /** Resolves when all that is in the ring now, up to an open synchronized update, is in the picture. */
  settled(): Promise<void> {
    if (this.#readable() - this.#parsed <= DIRECT_BYTES) {
      this.settleNow()
      return Promise.resolve()
    }
    const offset = this.#ring.end
    this.#startSlicing()
    return new Promise((resolve) => this.#waiting.push({ offset, resolve }))
  }

  /** As `settled`, in this turn. */
  settleNow(): void {
    this.#parseTo(this.#readable())
  }

  /** Everything, an open synchronized update included: before the size changes and at the end. */
  parseAll(): void {
    this.#sync = undefined
    this.#parseTo(this.#ring.end)
  }

  /** The stream ended: a character cut by the end becomes one replacement mark. */
  endOfOutput(): void {
    this.parseAll()
    const decoder = this.#emulator.core._inputHandler._utf8Decoder
    if (decoder.interim[0] !== 0) {
      decoder.clear()
      this.#json = undefined
      this.#emulator.core._inputHandler.parse(Buffer.from('\ufffd'))
    }
  }

  resize(columns: number, rows: number): void {
    this.parseAll()
    this.#json = undefined
    const core = this.#emulator.core
    const scrollback = scrollbackFor(columns, rows)
    if (core.options.scrollback > scrollback) core.options.scrollback = scrollback
    core.resize(columns, rows)
    if (core.options.scrollback < scrollback) core.options.scrollback = scrollback
    this.#hooks.changed(this.#parsed)
  }

  /** The picture as it is parsed now; call `settled` first. */
  snapshot(): TerminalSnapshot {
    return {
      watermark: this.#parsed,
      ...visibleScreen(this.#emulator.core, this.#modes),
      ...(this.#sync !== undefined && this.#ring.end > this.#parsed ? { update_open: true } : {}),
      evidence: this.#evidence.snapshot(),
    }
  }

  /** The same as JSON; a screen that did not change since the last one costs nothing. */
  snapshotJson(): string {
    if (this.#json !== undefined) return this.#json
    const json = JSON.stringify(this.snapshot())
    if (json.length <= KEPT_JSON_CHARS) this.#json = json
    return json
  }

  /** Bytes that recreate the terminal on a client, and the offset live output must go on from. */
  picture(historyRows: number): Picture {
    const text = repaint(this.#emulator.core, this.#modes, { historyRows })
    const open = this.#openSequence()
    return { bytes: Buffer.from(text + open.prefix), offset: open.offset }
  }

  /**
   * Where live bytes must start so that the client gets whole sequences and characters. A sequence whose start is no
   * longer kept is opened again in a form that shows nothing.
   */
  #openSequence(): { offset: number; prefix: string } {
    const input = this.#emulator.core._inputHandler
    let at = this.#parsed
    if (input._utf8Decoder.interim[0] !== 0) {
      for (let back = 1; back <= 3; back++) {
        const byte = this.#ring.view(at - back, 1)[0]
        if (byte === undefined) break
        if (byte >= 0xc0) {
          at -= back
          break
        }
      }
    }
    const state = input._parser.currentState
    if (state === GROUND) return { offset: at, prefix: '' }
    const start = this.#ring.lastIndexOf(
      ESC,
      Math.max(this.#ring.start, this.#parsed - SEQUENCE_REACH_BYTES),
      this.#parsed,
    )
    if (start !== -1) return { offset: start, prefix: '' }
    return { offset: this.#parsed, prefix: '\x1bP' }
  }

  /** First offset parsing must not reach now (2). */
  #readable(): number {
    const end = this.#ring.end
    if (end - this.#parsed >= this.#busyBytes) return end
    const begin = this.#ring.lastIndexOf(SYNC_BEGIN, this.#parsed, end)
    if (begin === -1 || this.#ring.lastIndexOf(SYNC_END, begin, end) !== -1) {
      this.#sync = undefined
      return end
    }
    const now = this.#clock.monotonic()
    if (this.#sync?.offset !== begin) {
      this.#sync = { offset: begin, since: now }
      this.#json = undefined
      this.#scope.after(SYNC_BOUND_MS, 'sync', () => this.#sync?.offset === begin && this.#startSlicing())
    }
    return now - this.#sync.since >= SYNC_BOUND_MS ? end : begin
  }

  #startSlicing(): void {
    if (this.#slicing) return
    this.#slicing = true
    setImmediate(() => this.#slice())
  }

  #slice(): void {
    this.#slicing = false
    if (this.#scope.closed) return
    const limit = this.#readable()
    this.#parseTo(Math.min(limit, this.#skip(limit) + SLICE_BYTES))
    const backlog = limit - this.#parsed
    if (backlog > 0) this.#startSlicing()
    if (backlog < this.#resumeBytes) this.#setHolding(false)
    if (backlog <= 0) this.#wake(this.#ring.end)
  }

  /** Drops what can never show (see skip.ts); the offset parsing goes on from. */
  #skip(limit: number): number {
    const to = skippableTo(this.#emulator.core, this.#ring, this.#parsed, limit)
    if (to > this.#parsed) {
      this.#emulator.core._inputHandler._utf8Decoder.clear()
      this.#parsed = to
      this.#json = undefined
      this.#evidence.outputParsed()
    }
    return this.#parsed
  }

  #parseTo(limit: number): void {
    const input = this.#emulator.core._inputHandler
    const before = this.#parsed
    if (before < limit) this.#json = undefined
    while (this.#parsed < limit) {
      const view = this.#ring.view(this.#parsed, Math.min(SLICE_BYTES, limit - this.#parsed))
      if (view.length === 0) {
        // Held bytes were overwritten: only possible with a ring smaller than one read.
        this.#parsed = this.#ring.start
        continue
      }
      this.#parsed += view.length
      this.#evidence.outputParsed()
      try {
        input.parse(view)
      } catch (failure) {
        // A fault of the emulator costs the picture at most this slice, never the session.
        input._parser.reset()
        this.#hooks.parseFailed(failure)
      }
    }
    if (this.#parsed >= this.#ring.end) this.#dueSince = undefined
    if (this.#parsed === before) return
    this.#hooks.changed(this.#parsed)
    this.#wake(this.#parsed)
  }

  #wake(reached: number): void {
    if (this.#waiting.length === 0) return
    const ready = this.#waiting.filter((it) => it.offset <= reached)
    this.#waiting = this.#waiting.filter((it) => it.offset > reached)
    for (const { resolve } of ready) resolve()
  }

  #setHolding(on: boolean): void {
    if (this.#holding === on) return
    this.#holding = on
    this.#hooks.hold(on)
  }
}

function sized(made: Emulator | undefined, columns: number, rows: number): Emulator {
  const scrollback = scrollbackFor(columns, rows)
  if (made === undefined) return createEmulator(columns, rows, scrollback)
  made.core.options.scrollback = scrollback
  if (made.core.cols !== columns || made.core.rows !== rows) made.core.resize(columns, rows)
  return made
}

/** Scrollback rows such that the whole grid stays within the cell bound. */
function scrollbackFor(columns: number, rows: number): number {
  return Math.max(0, Math.min(SCROLLBACK_ROWS, Math.floor(TERMINAL_MAX_CELLS / columns) - rows))
}
