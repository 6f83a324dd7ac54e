/** The control protocol of one connection: decode, check the lease, hand over to the worker. */
import * as v from 'valibot'
import {
  CAPABILITIES,
  RequestId,
  WORKER_PROTOCOL,
  WorkerRequest,
  type Capability,
  type RequestOf,
  type WorkerResponse,
} from '../protocol/worker/messages.ts'
import { MAX_RESULT_BYTES } from '../protocol/limits.ts'
import { SHORT_LINE_BYTES, type Connection } from './connection.ts'
import { WorkerFailure } from './failure.ts'
import { randomHex } from './random.ts'
import type { Worker } from './worker.ts'

const HOOK_MESSAGE = /^(identity_report|identity_release|subagent_[a-z]+|notification_create)$/
const LONG_REQUESTS = new Set(['initialize', 'write_plan'])
const KNOWN = new Set<unknown>(WorkerRequest.options.map((it) => it.entries.type.literal))

type Body = WorkerResponse extends infer R ? (R extends unknown ? Omit<R, 'request_id'> : never) : never
/** A body that is JSON already, without its braces. */
interface Encoded {
  encoded: string
}
type Answer = Body | Encoded
type Scoped = Extract<WorkerRequest, { scope: unknown }>

export class Control {
  readonly #worker: Worker
  readonly #connection: Connection
  #negotiated: { version: number; challenge: string; daemonId: string } | undefined

  constructor(worker: Worker, connection: Connection) {
    this.#worker = worker
    this.#connection = connection
  }

  badLine(problem: string): void {
    this.#fail('', new WorkerFailure('invalid_request', problem))
  }

  closed(): void {
    this.#worker.controllerGone(this)
  }

  line(message: Record<string, unknown>, bytes: number): void {
    const { type, request_id: id } = message
    if (typeof type === 'string' && HOOK_MESSAGE.test(type)) {
      // Reserved: reports of agents' hooks are answered, so that a hook goes on to its next way at once.
      return this.#connection.send({ ok: false, launch_identity_accepted: false })
    }
    const requestId = v.is(RequestId, id) ? id : ''
    if (!KNOWN.has(type)) {
      this.#fail(requestId, new WorkerFailure('invalid_request', 'unknown operation'))
      return this.#connection.refuse()
    }
    if (bytes > SHORT_LINE_BYTES && !LONG_REQUESTS.has(String(type))) {
      return this.#fail(
        requestId,
        new WorkerFailure('invalid_request', `a ${String(type)} line over ${SHORT_LINE_BYTES} bytes`),
      )
    }
    const parsed = v.safeParse(WorkerRequest, message)
    if (!parsed.success) {
      const issue = parsed.issues[0]
      return this.#fail(
        requestId,
        new WorkerFailure('invalid_request', `${v.getDotPath(issue) ?? 'request'}: ${issue.message}`),
      )
    }
    this.#handle(parsed.output)
  }

  #handle(request: WorkerRequest): void {
    try {
      const answer = this.#answer(request)
      if (answer instanceof Promise) {
        answer.then(
          (body) => this.#respond(request.request_id, body),
          (failure: unknown) => this.#fail(request.request_id, failure),
        )
      } else this.#respond(request.request_id, answer)
    } catch (failure) {
      this.#fail(request.request_id, failure)
    }
  }

  #answer(request: WorkerRequest): Answer | Promise<Answer> {
    switch (request.type) {
      case 'negotiate':
        return this.#negotiate(request)
      case 'acquire_controller':
        return this.#acquire(request)
      case 'release_controller':
        this.#leased(request.lease_id)
        this.#worker.controllerGone(this)
        return { type: 'controller_released' }
      case 'inspect':
        this.#leased(request.lease_id)
        return { type: 'inspected', snapshot: this.#worker.inspect() }
      case 'initialize':
        this.#leased(request.lease_id)
        return this.#worker.initialize(request.initialize).then((started) => ({ type: 'initialized', ...started }))
      default:
        return this.#scoped(request)
    }
  }

  #scoped(request: Scoped): Answer | Promise<Answer> {
    const worker = this.#worker
    this.#leased(request.scope.lease_id)
    const session = worker.sessionOf(request.scope)
    switch (request.type) {
      case 'open_data_stream':
        return worker.reachable().then(() => ({ type: 'data_stream_opened', ...worker.openStream(request) }))
      case 'read_output':
        return worker.reachable().then(() => ({ type: 'output_read_opened', ...worker.openReading(request) }))
      case 'close_data_stream':
        return { type: 'data_stream_closed', closed: session.clients.close(request.stream_id, 'requested') }
      case 'terminal_snapshot':
        return session.terminal.settled().then(() => ({
          encoded: `"type":"terminal_snapshot","runtime_id":"${session.runtimeId}","snapshot":${fitsLine(session.terminal.snapshotJson())}`,
        }))
      case 'write_plan':
        return worker.writePlan(session, request.plan).then((written) => ({
          type: 'write_completed',
          acknowledgement: { write_id: request.plan.write_id, bytes_written: written },
        }))
      case 'resize':
        return {
          type: 'resized',
          sequence: request.resize.sequence,
          dimensions: worker.resize(session, request.resize),
        }
      case 'stop':
        return worker.stop(session).then((exit) => ({ type: 'stopped', exit }))
      case 'acknowledge_terminal':
        worker.acknowledgeTerminal(session)
        return { type: 'terminal_acknowledged' }
    }
  }

  #negotiate(request: RequestOf<'negotiate'>): Body {
    const version = Math.min(WORKER_PROTOCOL.maximum, request.maximum_version)
    if (version < Math.max(WORKER_PROTOCOL.minimum, request.minimum_version)) {
      throw new WorkerFailure(
        'worker_protocol_incompatible',
        `this worker speaks ${WORKER_PROTOCOL.minimum}..=${WORKER_PROTOCOL.maximum}, the request ${request.minimum_version}..=${request.maximum_version}`,
      )
    }
    const challenge = randomHex(16)
    this.#negotiated = { version, challenge, daemonId: request.daemon_instance_id }
    return {
      type: 'negotiated',
      selected_version: version,
      supported_range: { ...WORKER_PROTOCOL },
      ...this.#worker.identity(),
      capabilities: [...CAPABILITIES],
      challenge,
    }
  }

  #acquire(request: RequestOf<'acquire_controller'>): Body {
    const agreed = this.#negotiated
    if (agreed === undefined) throw new WorkerFailure('invalid_state', 'negotiate first')
    if (request.challenge !== agreed.challenge || request.daemon_instance_id !== agreed.daemonId) {
      throw new WorkerFailure('identity_mismatch', 'the challenge or the daemon is not the negotiated one')
    }
    const capabilities = CAPABILITIES.filter((it): it is Capability => request.requested_capabilities.includes(it))
    const lease = this.#worker.acquire(
      this,
      { daemonId: agreed.daemonId, version: agreed.version, capabilities },
      (message) => this.#connection.send(message),
    )
    return { type: 'controller_acquired', lease_id: lease.id, capabilities }
  }

  #leased(leaseId: string): void {
    const lease = this.#worker.leases.current
    if (lease?.holder !== this || lease.id !== leaseId)
      throw new WorkerFailure('identity_mismatch', 'this connection does not hold that lease')
  }

  #respond(requestId: string, body: Answer): void {
    if ('encoded' in body) this.#connection.sendJson(`{"request_id":${JSON.stringify(requestId)},${body.encoded}}`)
    else this.#connection.send({ request_id: requestId, ...body })
  }

  #fail(requestId: string, failure: unknown): void {
    const known = failure instanceof WorkerFailure ? failure : this.#worker.unexpected(failure)
    this.#connection.send({ request_id: requestId, type: 'error', error: known.toBody() })
  }
}

/** The longer envelope of this protocol included. */
const MAX_SNAPSHOT_BYTES = MAX_RESULT_BYTES - 1_024

/** A longer line would end the reader's connection. Throws WorkerFailure `observation_limit_exceeded`. */
function fitsLine(json: string): string {
  const bytes = json.length * 3 <= MAX_SNAPSHOT_BYTES ? 0 : Buffer.byteLength(json)
  if (bytes <= MAX_SNAPSHOT_BYTES) return json
  throw new WorkerFailure(
    'observation_limit_exceeded',
    `the screen has ${bytes} bytes, at most ${MAX_SNAPSHOT_BYTES} fit one answer`,
  )
}
