/**
 * A terminal that exists on paper: an agent draws, sets titles and reports at times of its own, and decide.ts looks the
 * way the tracker does. No time passes.
 */
import { decide, NO_MEMORY, withAccepted, type Memory, type Publication } from '../../plugins/detection/decide.ts'
import { NOTHING_READ, type Reading, type Readings } from '../../plugins/detection/readings.ts'
import type { Identity, Verdict } from '../../plugins/detection/weigh.ts'
import type { AgentActivity } from '../../plugins/sessions/types.ts'
import type { StateReport } from '../../protocol/worker/messages.ts'

export const APP = 'stub'
const LOOK_REST_MS = 80

export const rule = (state: AgentActivity, more: Partial<Reading> = {}): Reading => ({
  rule: `${state}-rule`,
  region: 'whole_recent',
  state,
  question: false,
  ...more,
})
export const question = rule('blocked', { rule: 'question', question: true })

/** What the terminal shows; a change of any of it is output. */
export interface Face {
  readonly screen?: Reading | undefined
  readonly title?: Reading | undefined
  readonly identity?: Identity
  readonly group?: number
  readonly partial?: boolean
  readonly knowsIdleScreen?: boolean
  readonly composer?: boolean
}

export interface Told extends Publication {
  readonly at: number
  readonly verdict: Verdict
}

export class Stage {
  now = 0
  memory: Memory = NO_MEMORY
  readonly told: Told[] = []
  looks = 0
  verdict: Verdict | undefined
  /** Without it the worker is one that keeps no evidence. */
  evidence = true
  /** What the reports of its agent name, and what detection expects; undefined: no name, and none is expected. */
  app: string | undefined = APP
  #face: Face = {}
  #watermark = 0
  #outputAt: number | undefined
  #titleAt: number | undefined
  #titleChangedAt: number | undefined
  #report: StateReport | undefined
  #reports = 0
  #keysAt: number | undefined
  #lookedAt = -Infinity
  #due = Infinity

  get shown(): AgentActivity | undefined {
    return this.memory.shown?.activity
  }
  /** Publications as words. */
  get story(): string[] {
    return this.told.map((it) => `${it.activity ?? 'unknown'}${it.fresh ? '' : ' again'}`)
  }
  /** Nothing will be looked at unless something happens. */
  get rests(): boolean {
    return this.#due === Infinity
  }

  /** Output that leaves the face as given. */
  draw(face: Face): void {
    if (face.title !== undefined && face.title !== this.#face.title) {
      this.#titleAt = this.now
      this.#titleChangedAt = this.now
    }
    this.#face = { ...this.#face, ...face }
    this.output()
  }
  output(): void {
    this.#watermark += 10
    this.#outputAt = this.now
    this.#wake(0)
  }
  /** Sets the title again, to the same or another text of the same meaning. */
  title(title: Reading | undefined = this.#face.title): void {
    this.#titleAt = this.now
    this.#face = { ...this.#face, title }
    this.output()
  }
  report(state: string, more: Partial<StateReport> = {}): void {
    if (state === 'working') this.#reports++
    this.#report = { state, ...(this.app === undefined ? {} : { app: this.app }), at: this.now, ...more }
    this.output()
  }
  /** What is true of the processes, without output. */
  front(identity: Identity, group?: number): void {
    this.#face = { ...this.#face, identity, ...(group === undefined ? {} : { group }) }
  }
  /** Somebody typed; without output. */
  keys(): void {
    this.#keysAt = this.now
  }
  accepted(): void {
    this.memory = withAccepted(this.memory, this.now)
    this.#wake(0)
  }

  /** Lets time pass; looks happen when they are due. `each` runs after every look. */
  pass(ms: number, each: () => void = () => undefined): void {
    const until = this.now + ms
    while (this.#due <= until) {
      this.now = Math.max(this.now, this.#due)
      this.look()
      each()
    }
    this.now = until
  }

  look(): void {
    this.#due = Infinity
    this.#lookedAt = this.now
    this.looks++
    const { identity = 'agent', partial = false, knowsIdleScreen = true, screen, title, composer } = this.#face
    const readings: Readings = {
      ...NOTHING_READ,
      knowsIdleScreen,
      composer,
      screen,
      title: title && { ...title, source: 'osc_title' },
    }
    const decision = decide(this.memory, {
      now: this.now,
      watermark: this.#watermark,
      partial,
      told: String(this.#titleAt),
      readings,
      identity,
      group: this.#face.group,
      reportApp: this.app,
      evidence: this.evidence
        ? {
            ...(this.#titleAt === undefined ? {} : { title_at: this.#titleAt }),
            ...(this.#titleChangedAt === undefined ? {} : { title_changed_at: this.#titleChangedAt }),
            ...(this.#outputAt === undefined ? {} : { output_at: this.#outputAt }),
            ...(this.#report === undefined ? {} : { report: this.#report }),
            working_reports: this.#reports,
            ...(this.#keysAt === undefined ? {} : { keys_at: this.#keysAt }),
          }
        : undefined,
    })
    this.memory = decision.memory
    this.verdict = decision.verdict
    for (const it of decision.publish) this.told.push({ ...it, at: this.now, verdict: decision.verdict })
    if (decision.againMs !== undefined) this.#wake(decision.againMs)
  }

  #wake(ms: number): void {
    this.#due = Math.min(this.#due, Math.max(this.now + ms, this.#lookedAt + LOOK_REST_MS))
  }
}
