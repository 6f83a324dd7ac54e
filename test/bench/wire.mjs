// The smallest client of the public protocol: one control connection, and attach streams. It validates nothing, so
// that what is measured is the daemon.
import net from 'node:net'
import { StringDecoder } from 'node:string_decoder'
import { now } from './stats.mjs'

const connect = (path) =>
  new Promise((resolve, reject) => {
    const socket = net.connect(path)
    socket.once('error', reject)
    socket.once('connect', () => {
      socket.off('error', reject)
      resolve(socket)
    })
  })

/** Bytes of one terminal, from a socket or a PTY, with a wait for a piece of output. */
export class Watch {
  total = 0
  lastByteAt = 0
  #needle
  #tail = Buffer.alloc(0)
  #resolve
  #reject
  #ended = false

  feed(chunk) {
    this.total += chunk.length
    this.lastByteAt = now()
    if (this.#needle === undefined) return
    const from = this.#tail.length === 0 ? chunk : Buffer.concat([this.#tail, chunk])
    if (from.includes(this.#needle)) {
      const resolve = this.#resolve
      this.#needle = undefined
      resolve(this.lastByteAt)
    } else if (this.#needle.length > 1) {
      this.#tail = Buffer.from(from.subarray(-(this.#needle.length - 1)))
    }
  }

  end() {
    this.#ended = true
    if (this.#needle !== undefined)
      this.#reject(new Error(`the stream ended before ${JSON.stringify(String(this.#needle))}`))
  }

  /** Resolves with the time at which output from now on contains `needle`. Arm it before what causes the output. */
  until(needle, timeoutMs = 60_000) {
    if (this.#ended) return Promise.reject(new Error('the stream has ended'))
    return new Promise((resolve, reject) => {
      const timer = setTimeout(() => reject(new Error(`no ${JSON.stringify(needle)} after ${timeoutMs} ms`)), timeoutMs)
      this.#tail = Buffer.alloc(0)
      this.#needle = Buffer.from(needle)
      this.#resolve = (at) => (clearTimeout(timer), resolve(at))
      this.#reject = (problem) => (clearTimeout(timer), reject(problem))
    })
  }
}

/** Raw attach stream. */
export class AttachStream extends Watch {
  /** Which way it went: through the daemon's socket or to the worker. */
  way
  #socket

  constructor(socket, way) {
    super()
    this.way = way
    this.#socket = socket
    socket.on('data', (chunk) => this.feed(chunk))
    socket.on('error', () => this.end())
    socket.on('close', () => this.end())
  }

  write(bytes) {
    this.#socket.write(bytes)
  }

  close() {
    this.#socket.destroy()
  }
}

export class Wire {
  #socket
  #path
  #waiting = []
  #pending = ''
  #count = 0
  /** Called with each event of a subscribed connection: name, its line, time of its arrival. */
  onEvent
  /** Takes every chunk instead, from the time it is set. */
  onBytes

  static async open(path) {
    return new Wire(await connect(path), path)
  }

  constructor(socket, path) {
    this.#socket = socket
    this.#path = path
    const decoder = new StringDecoder('utf8')
    socket.on('data', (chunk) => (this.onBytes ? this.onBytes(chunk) : this.#take(decoder.write(chunk))))
    socket.on('error', () => {})
    socket.on('close', () => {
      for (const it of this.#waiting.splice(0)) it.reject(new Error('the daemon closed the connection'))
    })
  }

  #take(text) {
    this.#pending += text
    for (;;) {
      const end = this.#pending.indexOf('\n')
      if (end < 0) return
      const line = this.#pending.slice(0, end)
      this.#pending = this.#pending.slice(end + 1)
      const message = JSON.parse(line)
      const { ok, err, event } = message
      if (event !== undefined) {
        this.onEvent?.(event, message, now())
        continue
      }
      const waiting = this.#waiting.shift()
      if (err === undefined) waiting?.resolve(ok)
      else waiting?.reject(new Error(`${waiting.method}: ${err.class}/${err.code}: ${err.msg}`))
    }
  }

  call(method, params = null) {
    return new Promise((resolve, reject) => {
      this.#waiting.push({ method, resolve, reject })
      const id = `bench-${++this.#count}`
      this.#socket.write(`${JSON.stringify({ v: { minimum: 3, maximum: 4 }, id, method, params })}\n`)
    })
  }

  /** `way`: 'daemon' (the public protocol alone) or 'direct' (to the worker, where the daemon offers it). */
  async attach(sessionId, { way = 'direct', cols = 200, rows = 50 } = {}) {
    const opened = await this.call('session.attach', {
      session_id: sessionId,
      initial_dimensions: { cols, rows },
      ...(way === 'direct' ? { direct: true } : {}),
    })
    const direct = way === 'direct' ? opened.direct : undefined
    const socket = await connect(direct?.socket_path ?? this.#path)
    const stream = new AttachStream(socket, direct === undefined ? 'daemon' : 'direct')
    socket.write(`${JSON.stringify({ attach: direct?.token ?? opened.stream_id })}\n`)
    return stream
  }

  close() {
    this.#socket.destroy()
  }
}
