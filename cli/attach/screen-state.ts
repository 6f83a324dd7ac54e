/**
 * What must be known of a terminal's screen without asking anybody: which of its two screens is shown, and whether the
 * cursor is. Found in what is written to it. Pure state machine; text costs a search, no look at each byte.
 */
const PRIVATE = '\x1b[?'
const RESET_ALL = '\x1bc'
/** Longest private mode sequence that is understood; none of a real program is near it. */
const MAX_SEQUENCE_BYTES = 64
const MODES = /^\x1b\[\?([0-9;]*)([hl])/
const CUT = /\x1b(?:\[(?:\?[0-9;]*)?)?$/
const ALTERNATE: ReadonlySet<string> = new Set(['47', '1047', '1049'])

export class ScreenState {
  alternate = false
  cursorShown = true
  /** A sequence the last piece ended in the middle of. */
  #cut = ''

  push(piece: Uint8Array): void {
    const bytes = Buffer.from(piece.buffer, piece.byteOffset, piece.byteLength)
    if (this.#cut !== '') this.#read(Buffer.from(this.#cut + bytes.toString('latin1', 0, MAX_SEQUENCE_BYTES), 'latin1'))
    this.#read(bytes)
    this.#cut =
      CUT.exec(this.#cut + bytes.toString('latin1', Math.max(0, bytes.length - MAX_SEQUENCE_BYTES)))?.[0] ?? ''
  }

  #read(bytes: Buffer): void {
    let reset = bytes.indexOf(RESET_ALL, 0, 'latin1')
    for (let at = bytes.indexOf(PRIVATE, 0, 'latin1'); at !== -1; at = bytes.indexOf(PRIVATE, at + 1, 'latin1')) {
      for (; reset !== -1 && reset < at; reset = bytes.indexOf(RESET_ALL, reset + 1, 'latin1')) this.#fresh()
      const found = MODES.exec(bytes.toString('latin1', at, at + MAX_SEQUENCE_BYTES))
      if (found === null) continue
      const on = found[2] === 'h'
      for (const mode of (found[1] ?? '').split(';')) {
        if (ALTERNATE.has(mode)) this.alternate = on
        else if (mode === '25') this.cursorShown = on
      }
    }
    if (reset !== -1) this.#fresh()
  }

  #fresh(): void {
    this.alternate = false
    this.cursorShown = true
  }
}
