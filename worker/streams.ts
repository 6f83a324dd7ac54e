/** Data connections: a one-use token turns a fresh connection into an attach, follow or read stream. */
import * as v from 'valibot'
import type { Frame } from '../protocol/worker/frames.ts'
import { encodeFrameHead } from '../protocol/worker/frames.ts'
import { Columns, RequestId, type WorkerError } from '../protocol/worker/messages.ts'
import type { Client } from './clients.ts'
import type { Connection } from './connection.ts'
import { serveReading } from './observe.ts'
import { WorkerFailure } from './failure.ts'
import { fit } from './session.ts'
import type { Worker } from './worker.ts'
import type { Grant } from './tokens.ts'

const BAD_TOKEN: WorkerError = {
  code: 'invalid_data_token',
  message: 'the token is unknown, used or expired',
  retryable: false,
}

const Attach = v.optional(v.object({ dimensions: v.optional(Columns) }))

/** Pure. The size an opening frame tells, undefined when it tells none, or why it cannot be one. */
function toldSize(attach: unknown): { columns: number; rows: number } | WorkerFailure | undefined {
  const parsed = v.safeParse(Attach, attach)
  if (!parsed.success) return new WorkerFailure('invalid_request', `attach: ${parsed.issues[0].message}`)
  const told = parsed.output?.dimensions
  try {
    return told && fit(told)
  } catch (failure) {
    if (failure instanceof WorkerFailure) return failure
    throw failure
  }
}

export class DataStream {
  readonly #worker: Worker
  readonly #connection: Connection
  #client: Client | undefined
  #opened = false

  constructor(worker: Worker, connection: Connection) {
    this.#worker = worker
    this.#connection = connection
  }

  /** `{"attach":"<token>"}`: no answer line, a picture and live bytes follow. */
  raw(token: string, rest: Buffer): ((bytes: Buffer) => void) | undefined {
    const grant = this.#worker.tokens.redeem(token)
    const session = this.#worker.session
    if (grant?.mode !== 'attach' || session === undefined) {
      this.#connection.send({ type: 'error', error: BAD_TOKEN })
      return undefined
    }
    const client = session.clients.add(this.#connection.socket, this.#options('raw', grant))
    if (rest.length > 0) client.rawInput(rest)
    return (bytes) => client.rawInput(bytes)
  }

  frame(frame: Frame): void {
    const { header, payload } = frame
    if (!this.#opened) return this.#open(frame)
    if (header.kind === 'input' && this.#client !== undefined && v.is(RequestId, header.write_id)) {
      this.#client.framedInput(header.write_id, Buffer.from(payload))
    } else if (header.kind === 'close') this.#client?.close('requested')
    else this.#refuse({ code: 'invalid_request', message: `unexpected frame ${header.kind}`, retryable: false })
  }

  badFrame(): void {
    this.#refuse({ code: 'invalid_request', message: 'undecodable or oversized frame', retryable: false })
  }

  #open({ header }: Frame): void {
    this.#opened = true
    const session = this.#worker.session
    const grant = header.kind === 'open' ? this.#worker.tokens.redeem(header.token) : undefined
    const fits =
      header.kind === 'open' &&
      grant !== undefined &&
      header.mode === grant.mode &&
      header.stream_id === grant.streamId &&
      header.runtime_id === session?.runtimeId
    if (!fits || session === undefined) return this.#refuse(BAD_TOKEN)
    if (grant.mode === 'observation') {
      void serveReading(this.#connection.socket, grant, {
        ring: session.ring,
        waiters: this.#worker.waiters,
        ended: () => session.exit !== undefined,
        common: { version: this.#worker.version, stream_id: grant.streamId, runtime_id: session.runtimeId },
      })
      return
    }
    const size = toldSize(header.attach)
    if (size instanceof WorkerFailure) return this.#refuse(size.toBody())
    this.#client = session.clients.add(
      this.#connection.socket,
      this.#options(grant.mode, size === undefined ? grant : { ...grant, size }),
    )
  }

  #options(kind: 'raw' | 'attach' | 'detector', grant: Exclude<Grant, { mode: 'observation' }>) {
    return {
      kind,
      streamId: grant.streamId,
      ...(grant.size && { size: grant.size }),
      historyRows: grant.historyRows,
      afterOffset: grant.afterOffset,
      version: this.#worker.version,
      runtimeId: this.#worker.session?.runtimeId ?? '',
    }
  }

  #refuse(error: WorkerError): void {
    const head = encodeFrameHead(
      {
        version: this.#worker.version,
        stream_id: '',
        runtime_id: this.#worker.session?.runtimeId ?? '',
        kind: 'error',
        error,
      },
      0,
    )
    if (this.#connection.socket.writable) this.#connection.socket.write(head)
    this.#client?.close('requested', error)
    this.#connection.refuse()
  }
}
