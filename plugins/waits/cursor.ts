/** Cursors of session.wait_turn: opaque to clients, a place in one journal and the time it was made, on
 * the clock no one sets. Pure. */

export interface Cursor {
  /** Journal the number belongs to. */
  readonly journal: string
  /** Everything up to this event has been seen. */
  readonly seq: number
  /** When it was made, Clock.monotonic: a clock that is set moves nothing. */
  readonly atMs: number
  /** The daemon that gave the number to an event it could not store: after it the number may name another event. */
  readonly daemon?: string
}

const SHAPE = /^([A-Za-z0-9_-]{1,32})\.(\d{1,15})\.m(\d{1,15})(?:\.([A-Za-z0-9_-]{1,32}))?$/

export const cursorText = ({ journal, seq, atMs, daemon }: Cursor): string =>
  Buffer.from(`${journal}.${seq}.m${Math.floor(atMs)}${daemon === undefined ? '' : `.${daemon}`}`).toString('base64url')

/** undefined for a text that is no cursor. */
export function parseCursor(text: string): Cursor | undefined {
  const decoded = Buffer.from(text, 'base64url').toString('latin1')
  const [, journal, seq, atMs, daemon] = SHAPE.exec(decoded) ?? []
  if (journal === undefined) return undefined
  return { journal, seq: Number(seq), atMs: Number(atMs), ...(daemon === undefined ? {} : { daemon }) }
}
