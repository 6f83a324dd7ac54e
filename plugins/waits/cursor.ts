/** Cursors of session.wait_turn: opaque to clients, a place in one journal and the time it was made. Pure. */

export interface Cursor {
  /** Journal the number belongs to. */
  readonly journal: string
  /** Everything up to this event has been seen. */
  readonly seq: number
  /** When it was made, milliseconds of the wall clock. */
  readonly atMs: number
}

const SHAPE = /^([A-Za-z0-9_-]{1,32})\.(\d{1,15})\.(\d{1,15})$/

export const cursorText = ({ journal, seq, atMs }: Cursor): string =>
  Buffer.from(`${journal}.${seq}.${atMs}`).toString('base64url')

/** undefined for a text that is no cursor. */
export function parseCursor(text: string): Cursor | undefined {
  const decoded = Buffer.from(text, 'base64url').toString('latin1')
  const [, journal, seq, atMs] = SHAPE.exec(decoded) ?? []
  return journal === undefined ? undefined : { journal, seq: Number(seq), atMs: Number(atMs) }
}
