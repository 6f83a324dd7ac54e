/** Every directory and file the programs touch (contract/environment.md, head and §3). Pure: nothing is created here. */
import { createHash } from 'node:crypto'
import { join } from 'node:path'
import { resolveRoots, rootFaults, socketPathLimit, type PathFacts, type Roots } from '../platform/roots.ts'
import { catalogue } from '../protocol/fault.ts'
import { SESSION_ID_PART } from '../protocol/session-id.ts'

export type { PathFacts } from '../platform/roots.ts'

/** <runtime> holds daemon.sock, daemon.lock and workers/<session>/control.sock. */
export interface Paths extends Roots {
  readonly logs: string
  /** Private control socket of one session's worker. */
  workerSocket(sessionId: string): string
  /** Journals of one session's workers: <state>/workers/<session>. */
  journals(sessionId: string): string
  /** TMPDIR of one session: <cache>/session-tmp/<store key>/<session>. */
  sessionTmp(sessionId: string): string
}

const pathFaults = catalogue({
  worker_socket_path_invalid: {
    class: 'configuration',
    say: (d: { path: string; bytes: number; limit: number; room: number }) =>
      `the worker socket path ${d.path} takes ${d.bytes} bytes, the limit of this system is ${d.limit}`,
    recover: (d: { room: number }) => `set XDG_RUNTIME_DIR to a directory whose path is at most ${d.room} bytes long`,
  },
})

/** Name of the record log of sessions and of what other plugins keep with them, in <data> (contract/environment.md §3). */
export const METADATA_LOG = 'metadata.jsonl'

/** Same length as every session id we make: `s-` and a ULID. */
const SAMPLE_SESSION_ID = `s-${'0'.repeat(26)}`
/** Sockets are bound under `.s` and 16 hex digits, then renamed; this name is longer than control.sock. */
const STAGED_NAME = `.s${'0'.repeat(16)}`

/**
 * Places everything by the XDG variables and HOME. Throws Fault paths_unavailable (naming the variable) for an empty,
 * relative or undecodable value, and paths_unavailable or worker_socket_path_invalid when a socket would not fit.
 */
export function resolvePaths(env: Readonly<Record<string, string | undefined>>, facts: PathFacts): Paths {
  const roots = resolveRoots(env, facts)
  const { runtime, data, state, cache } = roots
  const limit = socketPathLimit(facts.platform)
  const storeKey = createHash('sha256').update(join(data, METADATA_LOG)).digest('hex').slice(0, 16)
  const paths: Paths = {
    ...roots,
    logs: join(state, 'logs'),
    workerSocket(sessionId) {
      const path = join(runtime, 'workers', part(sessionId), 'control.sock')
      for (const candidate of [path, join(runtime, 'workers', sessionId, STAGED_NAME)]) {
        const bytes = Buffer.byteLength(candidate)
        const room = limit - (bytes - Buffer.byteLength(runtime)) - '/pohunek'.length
        if (bytes > limit) throw pathFaults.worker_socket_path_invalid({ path: candidate, bytes, limit, room })
      }
      return path
    },
    journals: (sessionId) => join(state, 'workers', part(sessionId)),
    sessionTmp: (sessionId) => join(cache, 'session-tmp', storeKey, part(sessionId)),
  }
  paths.workerSocket(SAMPLE_SESSION_ID) // no session could ever start: said before any file is made
  return paths
}

/** One path component: a session id never leaves its parent directory. */
function part(sessionId: string): string {
  if (SESSION_ID_PART.test(sessionId)) return sessionId
  throw rootFaults.paths_unavailable({
    problem: `${JSON.stringify(sessionId)} cannot be a session id`,
    recover: 'use an id that session.list shows',
  })
}
