/** Random decisions of a run; a seed gives the same ones again. */
export class Random {
  #state: number

  constructor(seed: number) {
    this.#state = seed >>> 0
  }

  /** Evenly from [0, 1). mulberry32. */
  next(): number {
    this.#state = (this.#state + 0x6d2b79f5) >>> 0
    let x = Math.imul(this.#state ^ (this.#state >>> 15), this.#state | 1)
    x ^= x + Math.imul(x ^ (x >>> 7), x | 61)
    return ((x ^ (x >>> 14)) >>> 0) / 2 ** 32
  }

  /** A whole number from [from, to). */
  between(from: number, to: number): number {
    return from + Math.floor(this.next() * (to - from))
  }

  chance(probability: number): boolean {
    return this.next() < probability
  }

  /** Another sequence, so that what one client draws does not depend on when others do. */
  fork(): Random {
    return new Random(Math.floor(this.next() * 2 ** 32))
  }
}
