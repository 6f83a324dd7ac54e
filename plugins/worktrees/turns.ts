/** Work on one repository after the other, by common directory: git's own locks fail instead of waiting. */
export class Turns {
  readonly #last = new Map<string, Promise<unknown>>()

  run<T>(commonDir: string, work: () => Promise<T>): Promise<T> {
    const turn = (this.#last.get(commonDir) ?? Promise.resolve()).then(work, work)
    const settled = turn.catch(() => undefined)
    this.#last.set(commonDir, settled)
    void settled.then(() => {
      if (this.#last.get(commonDir) === settled) this.#last.delete(commonDir)
    })
    return turn
  }

  /** Resolves when nothing is in hand. */
  async idle(): Promise<void> {
    while (this.#last.size > 0) await Promise.all(this.#last.values())
  }
}
