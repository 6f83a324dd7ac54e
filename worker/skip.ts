/**
 * Exact skip: in a long backlog of plain text all but the last rows and the scrollback scroll out unseen, so parsing
 * them changes nothing. The conditions make sure of "nothing": no sequence, no charset shift, full scroll region,
 * normal buffer, parser between sequences. The tail starts behind a CR LF, where column and wrap state are known.
 */
import type { OutputRing } from './ring.ts'
import { GROUND, type Core } from './xterm.ts'

const MIN_BACKLOG_BYTES = 262_144
const CHUNK_BYTES = 65_536
const LF = 0x0a
const CR = 0x0d

/** Offset parsing may jump to, `from` when nothing can be skipped. Pure over what it is given. */
export function skippableTo(core: Core, ring: OutputRing, from: number, to: number): number {
  if (to - from < MIN_BACKLOG_BYTES) return from
  const { active, normal } = core._bufferService.buffers
  if (active !== normal || core._inputHandler._parser.currentState !== GROUND) return from
  if (normal.scrollTop !== 0 || normal.scrollBottom !== core.rows - 1) return from
  // Only a prefix without anything special counts; the first special byte ends it.
  const plain = plainUntil(ring, from, to)
  if (plain - from < MIN_BACKLOG_BYTES) return from
  const cut = linesBack(ring, from, plain, core.rows * 2 + core.options.scrollback + 1)
  return cut === -1 ? from : cut
}

function plainUntil(ring: OutputRing, from: number, to: number): number {
  for (let at = from; at < to;) {
    const view = ring.view(at, Math.min(CHUNK_BYTES, to - at))
    if (view.length === 0) return from
    const special = firstSpecial(view)
    if (special !== -1) return at + special
    at += view.length
  }
  return to
}

/** ESC, SO, SI, or the lead byte that could begin a C1 control. A lead byte at the very end counts, to be safe. */
function firstSpecial(view: Buffer): number {
  let first = -1
  for (const byte of [0x1b, 0x0e, 0x0f]) {
    const at = view.indexOf(byte)
    if (at !== -1 && (first === -1 || at < first)) first = at
  }
  for (let at = view.indexOf(0xc2); at !== -1 && (first === -1 || at < first); at = view.indexOf(0xc2, at + 1)) {
    if ((view[at + 1] ?? 0x80) < 0xa0) return at
  }
  return first
}

/** Offset right behind the CR LF that has `lines` line feeds after it. */
function linesBack(ring: OutputRing, from: number, to: number, lines: number): number {
  let high = to
  let seen = 0
  while (high > from) {
    const part = ring.viewBack(from, high)
    if (part.length === 0) return -1
    const low = high - part.length
    for (let at = part.lastIndexOf(LF); at > 0; at = part.lastIndexOf(LF, at - 1)) {
      if (seen >= lines && part[at - 1] === CR) return low + at + 1
      seen++
    }
    high = low
  }
  return -1
}
