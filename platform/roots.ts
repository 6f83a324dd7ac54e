/** Where a user's pohunek lives, from the environment alone. Pure and light: the CLI resolves it on every start. */
import { basename, dirname, isAbsolute, join, resolve } from 'node:path'
import { catalogue } from '../protocol/fault.ts'

export interface Roots {
  readonly runtime: string
  /** True when XDG_RUNTIME_DIR was unset and the per-user directory below the temporary directory is used. */
  readonly runtimeIsFallback: boolean
  readonly config: string
  readonly data: string
  readonly state: string
  readonly cache: string
  readonly home: string
  readonly daemonSocket: string
}

export const rootFaults = catalogue({
  paths_unavailable: {
    class: 'configuration',
    say: (d: { problem: string; recover: string }) => d.problem,
    recover: (d: { recover: string }) => d.recover,
  },
})

export interface PathFacts {
  /** Effective user id. */
  uid: number
  platform: NodeJS.Platform
  /** The system's temporary directory; never the TMPDIR of the caller. */
  tmpdir: string
}

type Environment = Readonly<Record<string, string | undefined>>

/** Bytes a socket path may have: sun_path is 108 on Linux and 104 on macOS, one of them for the terminating NUL. */
export const socketPathLimit = (platform: NodeJS.Platform): number => (platform === 'darwin' ? 103 : 107)

/**
 * Places everything by the XDG variables and HOME. Throws Fault paths_unavailable (naming the variable) for an empty,
 * relative or undecodable value, and when the daemon's socket would not fit.
 */
export function resolveRoots(env: Environment, facts: PathFacts): Roots {
  const mac = facts.platform === 'darwin'
  const home = directory(env, 'HOME')
  if (home === undefined) {
    throw rootFaults.paths_unavailable({ problem: 'HOME is not set', recover: 'set HOME to your home directory' })
  }
  const below = (name: string, fallback: string): string =>
    join(directory(env, name) ?? join(home, fallback), 'pohunek')
  const xdgRuntime = directory(env, 'XDG_RUNTIME_DIR')
  const runtime =
    xdgRuntime !== undefined
      ? join(xdgRuntime, 'pohunek')
      : join(mac ? '/private/tmp' : resolve(facts.tmpdir), `pohunek-${facts.uid}`)
  const daemonSocket = join(runtime, 'daemon.sock')
  const bytes = Buffer.byteLength(daemonSocket)
  const limit = socketPathLimit(facts.platform)
  if (bytes > limit) {
    throw rootFaults.paths_unavailable({
      problem: `the daemon socket path ${daemonSocket} takes ${bytes} bytes, the limit of this system is ${limit}`,
      recover: `set XDG_RUNTIME_DIR to a directory whose path is at most ${limit - '/pohunek/daemon.sock'.length} bytes long`,
    })
  }
  return {
    runtime,
    runtimeIsFallback: xdgRuntime === undefined,
    config: below('XDG_CONFIG_HOME', '.config'),
    data: below('XDG_DATA_HOME', '.local/share'),
    state: below('XDG_STATE_HOME', '.local/state'),
    cache: below('XDG_CACHE_HOME', mac ? 'Library/Caches' : '.cache'),
    home,
    daemonSocket,
  }
}

/** What makes another environment name this runtime root, as a line for a shell. Pure. */
export function wayTo(runtime: string): string {
  return basename(runtime) === 'pohunek' ? `export XDG_RUNTIME_DIR=${dirname(runtime)}` : 'unset XDG_RUNTIME_DIR'
}

/** Value of a variable that names a directory; undefined when unset. */
function directory(env: Environment, name: string): string | undefined {
  const value = env[name]
  if (value === undefined) return undefined
  const refuse = (what: string): never => {
    throw rootFaults.paths_unavailable({
      problem: `${name} ${what}`,
      recover: `set ${name} to an absolute path${name === 'HOME' ? '' : ', or unset it'}`,
    })
  }
  if (value === '') refuse('is empty')
  if (!isAbsolute(value)) refuse(`is not an absolute path: ${value}`)
  // U+FFFD stands where the value was not UTF-8: the real directory can no longer be named.
  if (value.includes('\uFFFD') || value.includes('\0')) refuse('is not a valid UTF-8 path')
  return resolve(value)
}
