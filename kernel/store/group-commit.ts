/**
 * Appends changes to a log file in groups: everything queued while an fsync runs shares the next one.
 * Invariants
 *  1. Order on disk is the order of `add`.
 *  2. When a write fails, every change not yet durable is undone, newest first, and rejected: what is in memory is then
 *     what is on disk. Later changes were made on top of the failed one, so they go with it.
 */
import { coreFaults } from '../../protocol/fault.ts'
import type { LogFile } from './log-file.ts'

interface Pending {
  /** Line without newline; empty for one that only waits for those before it. */
  readonly text: string
  readonly changes: number
  readonly undo: () => void
  readonly resolve: () => void
  readonly reject: (failure: unknown) => void
}

/** Work that needs the file for itself, once everything added before it was asked for is durable. */
interface Exclusive {
  readonly after: number
  readonly run: () => Promise<void>
}

export interface CommitListener {
  /** Lines that just became durable. */
  committed(lines: string, changes: number): void
  failed(failure: unknown, changes: number): void
}

export class GroupCommit {
  readonly #file: LogFile
  readonly #listener: CommitListener
  #queue: Pending[] = []
  #added = 0
  #settled = 0
  #exclusive: Exclusive | undefined
  #running: Promise<void> | undefined

  constructor(file: LogFile, listener: CommitListener) {
    this.#file = file
    this.#listener = listener
  }

  /** Resolves when the line is durable. Rejects with Fault io_error after `undo` ran. */
  add(text: string, changes: number, undo: () => void): Promise<void> {
    return new Promise((resolve, reject) => {
      this.#queue.push({ text, changes, undo, resolve, reject })
      this.#added += 1
      this.#wake()
    })
  }

  /** Runs `run` between two groups, after all that was added until now. */
  exclusively(run: () => Promise<void>): Promise<void> {
    return new Promise((resolve, reject) => {
      this.#exclusive = { after: this.#added, run: () => run().then(resolve, reject) }
      this.#wake()
    })
  }

  /** Resolves when nothing is queued or being written. */
  async idle(): Promise<void> {
    while (this.#running !== undefined) await this.#running
  }

  #wake(): void {
    this.#running ??= this.#run()
  }

  async #run(): Promise<void> {
    await Promise.resolve() // what one caller adds in one go shares the first group too
    for (;;) {
      if (this.#exclusive !== undefined && this.#settled >= this.#exclusive.after) {
        const { run } = this.#exclusive
        this.#exclusive = undefined
        await run()
      } else if (this.#queue.length > 0) await this.#commit()
      else break
    }
    this.#running = undefined // in the same step as the last look at the queue: what is added later wakes a new run
  }

  async #commit(): Promise<void> {
    const group = this.#queue
    this.#queue = []
    const lines = group.map(({ text }) => (text === '' ? '' : `${text}\n`)).join('')
    const changes = group.reduce((sum, it) => sum + it.changes, 0)
    try {
      if (lines !== '') await this.#file.append(Buffer.from(lines))
    } catch (failure) {
      const undone = [...group, ...this.#queue]
      this.#queue = []
      this.#settled += undone.length
      for (const it of [...undone].reverse()) it.undo() // 2
      const problem = `nothing was changed: ${(failure as Error).message}`
      const fault = coreFaults.io_error({ what: this.#file.path, problem }, failure)
      for (const it of undone) it.reject(fault)
      this.#listener.failed(failure, undone.length)
      return
    }
    this.#settled += group.length
    this.#listener.committed(lines, changes)
    for (const it of group) it.resolve()
  }
}
