/** What a client call fails with: an error of the daemon's, or one of the client's own codes (contract/errors.md). */
import { Fault, catalogue, type ErrorBody } from '../protocol/fault.ts'

export class ClientError extends Fault {
  override name = 'ClientError'

  /** The wire spelling of `message`. */
  get msg(): string {
    return this.message
  }
}

const own = catalogue({
  daemon_unreachable: {
    class: 'daemon',
    say: (d: { socket: string; problem: string }) => `no daemon answers on ${d.socket}: ${d.problem}`,
    recover: 'pohunek daemon start',
  },
  daemon_spawn_failed: {
    class: 'daemon',
    say: (d: { problem: string }) => d.problem,
    recover: 'pohunek doctor',
  },
  runtime_directory_unsafe: {
    class: 'configuration',
    say: (d: { path: string; problem: string }) => `${d.path} ${d.problem}`,
    recover: 'set XDG_RUNTIME_DIR to a directory of yours, or remove this one',
  },
  framing: {
    class: 'transport',
    say: (d: { problem: string }) => d.problem,
    recover: 'retry; the daemon may have been restarted',
  },
  request_timeout: {
    class: 'transport',
    say: (d: { method: string; ms: number }) =>
      `${d.method} was not answered within ${d.ms} ms; it may still have happened`,
    recover: 'inspect before retrying',
  },
  invalid_protocol_envelope: {
    class: 'transport',
    say: (d: { problem: string }) => `the daemon answered ${d.problem}`,
  },
  daemon_protocol_too_old: {
    class: 'daemon',
    say: (d: { what: string; version: number }) =>
      `${d.what} needs protocol 4; the daemon on local speaks ${d.version}`,
    recover: 'upgrade pohunek on that host',
  },
  incomplete_origin_environment: {
    class: 'configuration',
    say: (d: { missing: string }) => `${d.missing} is not set although its partner is`,
    recover: 'set both POHUNEK_SESSION_ID and POHUNEK_DAEMON_ID, or neither',
  },
  invalid_origin_environment: {
    class: 'configuration',
    say: (d: { name: string }) => `${d.name} is not a valid id`,
    recover: 'unset POHUNEK_SESSION_ID and POHUNEK_DAEMON_ID',
  },
  cancelled: {
    class: 'transport',
    say: (d: { method: string }) => `${d.method} was cancelled; it may still have happened`,
  },
})

type Own = typeof own
/** Builds one of the client's own errors. */
export function clientError<C extends keyof Own>(code: C, data: Parameters<Own[C]>[0], cause?: unknown): ClientError {
  const fault = (own[code] as (data: unknown, cause?: unknown) => Fault)(data, cause)
  return new ClientError(fault.toBody(), cause)
}

const isRecord = (value: unknown): value is Record<string, unknown> => typeof value === 'object' && value !== null

/** The `err` of an answer as an error; undefined when it is none. */
export function errorOf(err: unknown): ClientError | undefined {
  if (!isRecord(err)) return undefined
  const { class: errorClass, code, msg, recover } = err
  if (typeof errorClass !== 'string' || typeof code !== 'string' || typeof msg !== 'string') return undefined
  return new ClientError({
    class: errorClass as ErrorBody['class'],
    code,
    msg,
    ...(typeof recover === 'string' ? { recover } : {}),
  })
}
