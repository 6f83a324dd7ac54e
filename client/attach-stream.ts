/** An attach stream as a Node stream. */
import { Duplex } from 'node:stream'
import type { Attachment, AttachOptions, Client } from './client.ts'
import { clientError, errorOf } from './errors.ts'

export class AttachStream extends Duplex {
  readonly #client: Client
  #attachment: Attachment | undefined

  constructor(client: Client) {
    super({ allowHalfOpen: false })
    this.#client = client
  }

  static async open(client: Client, sessionId: string, options: AttachOptions): Promise<AttachStream> {
    const it = new AttachStream(client)
    it.#attachment = await client.attachRaw(sessionId, options, {
      data: (chunk) => it.push(Buffer.from(chunk)),
      end: () => void it.push(null),
    })
    return it
  }

  get streamId(): string {
    return this.#open.streamId
  }

  /** Tells the session that this client's terminal changed. */
  async resize(cols: number, rows: number): Promise<void> {
    const { sessionId, streamId } = this.#open
    await this.#client.call('session.resize', { session_id: sessionId, cols, rows, stream_id: streamId })
  }

  /** Leaves. Throws the typed failure of the stream when there was one. */
  async detach(): Promise<void> {
    const { error } = await this.#client.call('session.detach', { stream_id: this.#open.streamId })
    this.destroy()
    const failure = errorOf(error)
    if (failure !== undefined) throw failure
  }

  get #open(): Attachment {
    if (this.#attachment === undefined) throw clientError('framing', { problem: 'the stream is not open yet' })
    return this.#attachment
  }

  override _read(): void {
    this.#attachment?.stream.resume()
  }

  override _write(chunk: Uint8Array, _encoding: BufferEncoding, done: (failure?: Error) => void): void {
    if (this.#open.stream.write(chunk)) done()
    else this.#open.stream.onDrain(done)
  }

  override _destroy(failure: Error | null, done: (failure: Error | null) => void): void {
    this.#attachment?.stream.close()
    done(failure)
  }
}
