/** A terminal as an attached user sees it. */
import xterm from '@xterm/headless'

export class View {
  readonly #terminal: InstanceType<typeof xterm.Terminal>

  constructor(cols: number, rows: number) {
    this.#terminal = new xterm.Terminal({ cols, rows, scrollback: 1_000, allowProposedApi: true })
  }

  write(bytes: Buffer): void {
    this.#terminal.write(Buffer.from(bytes))
  }

  /** For an attach stream whose bytes it shows. */
  taker(end: () => void = () => undefined): { data(chunk: Buffer): boolean; end(): void } {
    return {
      data: (chunk) => {
        this.write(chunk)
        return true
      },
      end,
    }
  }

  /** Resolves once everything written so far is on the screen. */
  shown(): Promise<void> {
    return new Promise((resolve) => this.#terminal.write('', resolve))
  }

  get cursor(): { row: number; col: number } {
    const { cursorX, cursorY } = this.#terminal.buffer.active
    return { row: cursorY, col: cursorX }
  }

  /** Rows of the screen, trailing blanks trimmed. */
  rows(): string[] {
    const { baseY } = this.#terminal.buffer.active
    return Array.from({ length: this.#terminal.rows }, (_, row) => this.#row(baseY + row))
  }

  /** The `count` rows above the cursor, wherever on the screen it is. */
  above(count: number): string[] {
    const { baseY, cursorY } = this.#terminal.buffer.active
    const end = baseY + cursorY
    return Array.from({ length: Math.min(count, end) }, (_, at) => this.#row(end - Math.min(count, end) + at))
  }

  /** The screen with the look of every cell. */
  cells(): string[] {
    const { active } = this.#terminal.buffer
    return Array.from({ length: this.#terminal.rows }, (_, row) => {
      const line = active.getLine(active.baseY + row)
      return Array.from({ length: this.#terminal.cols }, (_, col) => {
        const cell = line?.getCell(col)
        if (cell === undefined || cell.isAttributeDefault()) return cell?.getChars() ?? ''
        return `${cell.getChars()}{${cell.getFgColor()},${cell.getBgColor()},${cell.isBold()},${cell.isUnderline()}}`
      }).join('|')
    })
  }

  close(): void {
    this.#terminal.dispose()
  }

  #row(at: number): string {
    return this.#terminal.buffer.active.getLine(at)?.translateToString(true) ?? ''
  }
}
