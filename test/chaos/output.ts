/** A session's output, joined from answers of many daemons and compared with what its program wrote. */
import { closeSync, fstatSync, openSync, readSync } from 'node:fs'
import { crc32 } from 'node:zlib'
import type { MethodResult } from '../../client/index.ts'

const LINE = /^(n(\d{9}) .* )([0-9a-f]{8})\r$/s
const CONTEXT_BYTES = 60
const LF = 0x0a

export class JoinedOutput {
  readonly #copy: number
  #rest: Buffer = Buffer.alloc(0)
  #lines = 0
  /** Offset of the next byte that is wanted; everything before it was checked. */
  next = 0

  /** `copy`: the program's own account of what it wrote. */
  constructor(copy: string) {
    this.#copy = openSync(copy, 'r')
  }

  /** Bytes the program has written so far. */
  get written(): number {
    return fstatSync(this.#copy).size
  }

  /** Takes the answer to a request for output after `next`. Answers what is wrong with it. */
  take(answer: MethodResult<'session.output'>): string | undefined {
    const [start, end] = [Number(answer.start_offset), Number(answer.next_offset)]
    if (answer.gap !== undefined) return `a gap ${JSON.stringify(answer.gap)} after ${this.next}`
    if (start !== this.next) return `output from ${start}, asked for ${this.next}`
    const bytes = Buffer.from(answer.data_base64, 'base64')
    if (end - start !== bytes.length) return `${bytes.length} bytes for [${start}, ${end})`
    const wrong = this.#differs(start, bytes) ?? this.#numbers(bytes)
    this.next = end
    return wrong
  }

  /** The last `bytes` the program wrote, from the beginning of a line. */
  tail(bytes: number): Buffer {
    const from = Math.max(0, this.written - bytes)
    const tail = this.#kept(from, this.written - from)
    return from === 0 ? tail : tail.subarray(tail.indexOf(LF) + 1)
  }

  close(): void {
    closeSync(this.#copy)
  }

  #kept(offset: number, length: number): Buffer {
    const buffer = Buffer.allocUnsafe(length)
    return buffer.subarray(0, readSync(this.#copy, buffer, 0, length, offset))
  }

  #differs(offset: number, bytes: Buffer): string | undefined {
    const kept = this.#kept(offset, bytes.length)
    if (kept.equals(bytes)) return undefined
    const found = bytes.findIndex((byte, at) => byte !== kept[at])
    const around = (it: Buffer): string =>
      JSON.stringify(it.toString('latin1', Math.max(0, found - CONTEXT_BYTES), found + CONTEXT_BYTES))
    return `output differs at ${offset + found}: got ${around(bytes)}, the program wrote ${around(kept)}`
  }

  /** The account itself is no witness of its own order: every line has its number and its checksum. */
  #numbers(bytes: Buffer): string | undefined {
    let rest = Buffer.concat([this.#rest, bytes])
    for (let end = rest.indexOf(LF); end >= 0; end = rest.indexOf(LF)) {
      const line = rest.toString('latin1', 0, end)
      rest = rest.subarray(end + 1)
      const [, body = '', number, sum] = LINE.exec(line) ?? []
      const right = Number(number) === this.#lines && crc32(Buffer.from(body, 'latin1')) === parseInt(sum ?? '', 16)
      if (!right) return `line ${this.#lines} is ${JSON.stringify(line)}`
      this.#lines++
    }
    this.#rest = Buffer.from(rest)
    return undefined
  }
}
