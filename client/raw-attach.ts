/** Redeems an attach stream: a connection that turns raw behind one line (contract/protocol.md §7). */
import { connect as dial, type Socket } from 'node:net'
import { CLIENT_CONNECT_MS } from '../protocol/limits.ts'
import { after } from './clock.ts'
import { ClientError, clientError, errorOf } from './errors.ts'

// One read of a full pipe; also the largest piece handed to a taker at once.
const READ_BYTES = 65_536
const BRACE = 0x7b
const MAX_ERROR_LINE_BYTES = 65_536

export interface RawTaker {
  /** Terminal output. The bytes are valid until the call returns. False holds the stream back until `resume`. */
  data(chunk: Buffer): boolean
  /** The stream is over; called once. */
  end(): void
}

export interface RawStream {
  write(bytes: Uint8Array): boolean
  resume(): void
  /** Room again after `write` answered false. */
  onDrain(run: () => void): void
  close(): void
}

/**
 * Connects to `path`, sends the attach line for `token` and resolves at the first byte (a repaint always comes) or the
 * end. Throws the typed error the other side answers instead, daemon_unreachable, or request_timeout.
 */
export function openRaw(
  path: string,
  token: string,
  taker: RawTaker,
  timeoutMs: number = CLIENT_CONNECT_MS,
): Promise<RawStream> {
  return new Promise((resolve, reject) => {
    let state: 'opening' | 'open' | 'over' = 'opening'
    let head: Buffer | undefined
    const buffer = Buffer.allocUnsafe(READ_BYTES)
    const fail = (failure: ClientError): void => {
      state = 'over'
      timer[Symbol.dispose]()
      socket.destroy()
      reject(failure)
    }
    const open = (): void => {
      state = 'open'
      timer[Symbol.dispose]()
      resolve(raw(socket))
    }
    const first = (chunk: Buffer): boolean => {
      head = head === undefined ? Buffer.from(chunk) : Buffer.concat([head, chunk])
      const newline = head.indexOf(10)
      if (head[0] === BRACE && newline === -1 && head.length < MAX_ERROR_LINE_BYTES) return true
      const refusal = head[0] === BRACE ? refusalOf(head.subarray(0, newline)) : undefined
      if (refusal !== undefined) {
        fail(refusal)
        return false
      }
      open()
      return taker.data(head)
    }
    const socket = dial({
      path,
      onread: {
        buffer,
        callback: (bytes: number): boolean => {
          const chunk = buffer.subarray(0, bytes)
          if (state === 'open') return taker.data(chunk)
          return state === 'opening' ? first(chunk) : false
        },
      },
    })
    const timer = after(timeoutMs, () => fail(clientError('request_timeout', { method: 'attach', ms: timeoutMs })))
    socket.once('connect', () => socket.write(`${JSON.stringify({ attach: token })}\n`))
    socket.on('error', (failure: NodeJS.ErrnoException) => {
      if (state === 'opening')
        fail(clientError('daemon_unreachable', { socket: path, problem: failure.code ?? 'it broke' }, failure))
    })
    socket.once('close', () => {
      if (state === 'opening') open()
      if (state === 'open') {
        state = 'over'
        taker.end()
      }
    })
  })
}

function raw(socket: Socket): RawStream {
  return {
    write: (bytes) => socket.writable && socket.write(bytes),
    resume: () => void socket.resume(),
    onDrain: (run) => void socket.once('drain', run),
    close: () => void socket.destroy(),
  }
}

/** A public error line, or a worker's own form of one. */
function refusalOf(line: Buffer): ClientError | undefined {
  try {
    const value = JSON.parse(line.toString()) as { err?: unknown; error?: { code?: unknown; message?: unknown } }
    if (value.err !== undefined) return errorOf(value.err)
    const { code, message } = value.error ?? {}
    if (typeof code !== 'string') return undefined
    return new ClientError({ class: 'runtime', code, msg: typeof message === 'string' ? message : code })
  } catch {
    return undefined
  }
}
