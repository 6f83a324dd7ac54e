/**
 * What a program's output may cost. Sequences of a few bytes make the emulator loop, or keep what it was given, without
 * an end; here they are cut down before its own handlers see them.
 */
import type { IParser } from '@xterm/headless'
import type { Core, Line } from './xterm.ts'

/** Longest OSC or DCS payload that is looked at; a longer one is passed over without being kept. */
const MAX_PAYLOAD_CHARS = 65_536
/** UTF-16 units of one cell. The longest emoji has 19; what is joined to a full cell is dropped. */
const MAX_CLUSTER_UNITS = 64
/** From here on an engine joins strings by reference, at several times their size, until somebody reads them. */
const SHORT_UNITS = 13
const WIDTH_MASK = 0xc00000
const WIDTH_SHIFT = 22

/** Sequences whose number says how often or how far. */
const COUNTED: readonly { prefix?: string; intermediates?: string; final: string }[] = [
  ...[...'@ABCDEFGHILMPSTXZ`adef'].map((final) => ({ final })),
  { intermediates: ' ', final: '@' },
  { intermediates: ' ', final: 'A' },
  { intermediates: "'", final: '}' },
  { intermediates: "'", final: '~' },
]

/** Call it after every handler of the emulator's own is there: the last one registered runs first. */
export function boundCosts(parser: IParser, core: Core): void {
  const inner = core._inputHandler._parser
  for (const id of COUNTED) {
    inner.registerCsiHandler(id, (params) => clamp(params, Math.max(core.cols, core.rows)))
  }
  inner.registerCsiHandler({ final: 'b' }, (params) => clamp(params, core.cols * core.rows))
  // Links are not in any picture, and the emulator keeps each one until its row is gone.
  parser.registerOscHandler(8, () => true)
  boundPayload(inner._oscParser, 'start')
  boundPayload(inner._dcsParser, 'hook')
  const line = core._bufferService.buffers.active.lines.get(0)
  if (line !== undefined) boundClusters(Object.getPrototypeOf(line) as CellJoiner)
}

function clamp(params: { params: Int32Array; length: number }, most: number): boolean {
  for (let at = 0; at < params.length; at++) if ((params.params[at] ?? 0) > most) params.params[at] = most
  return false
}

type Put = (data: Uint32Array, start: number, end: number) => void
export interface PayloadParser {
  start?: () => void
  hook?: (ident: number, params: unknown) => void
  put: Put
  reset(): void
}

/** Over the bound the handlers are told that there is nothing, and the rest goes by. */
function boundPayload(parser: PayloadParser, opening: 'start' | 'hook'): void {
  const open = (parser[opening] as (...args: unknown[]) => void).bind(parser)
  const put = parser.put.bind(parser)
  let size = 0
  parser[opening] = (...args: unknown[]): void => {
    size = 0
    open(...args)
  }
  parser.put = (data, start, end): void => {
    if (size > MAX_PAYLOAD_CHARS) return
    size += end - start
    if (size > MAX_PAYLOAD_CHARS) parser.reset()
    else put(data, start, end)
  }
}

interface CellJoiner extends Line {
  addCodepointToCell(column: number, code: number, width: number): void
}
/** Lines share one prototype among all emulators. */
const bounded = new WeakSet<object>()

function boundClusters(lines: CellJoiner): void {
  if (bounded.has(lines)) return
  bounded.add(lines)
  const join = lines.addCodepointToCell // eslint-disable-line @typescript-eslint/unbound-method -- called with its line
  lines.addCodepointToCell = function (this: CellJoiner, column, code, width) {
    const before = this._combined[column]?.length ?? 0
    const content = this._data[column * 3] ?? 0
    if ((content & 0x200000) === 0 || before < SHORT_UNITS) return join.call(this, column, code, width)
    if (before >= MAX_CLUSTER_UNITS) {
      if (width > 0) this._data[column * 3] = (content & ~WIDTH_MASK) | (width << WIDTH_SHIFT)
      return
    }
    join.call(this, column, code, width)
    this._combined[column]?.charCodeAt(0) // reading makes it one flat string
  }
}
