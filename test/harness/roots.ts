/**
 * Private roots of one test. The path is short because worker sockets must fit 107 bytes. The environment is built from
 * empty: nothing of the developer's machine but the place of the programs reaches a test.
 */
import { existsSync, mkdirSync, mkdtempSync, rmSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'

export const REPOSITORY = dirname(dirname(dirname(fileURLToPath(import.meta.url))))
export const CHILD = join(REPOSITORY, 'test/harness/child.mjs')
export const bin = (name: 'pohunek' | 'pohunekd' | 'pohunek-sessiond'): string => join(REPOSITORY, 'bin', name)

export type Env = Record<string, string>

export interface Roots {
  /** Everything of the test is below it; also what marks the test's processes. */
  readonly base: string
  readonly home: string
  readonly runtime: string
  readonly config: string
  readonly data: string
  readonly state: string
  readonly cache: string
  /** A directory for the test's own files, default cwd of its programs. */
  readonly work: string
  readonly socket: string
  /** Complete environment for a program of this test. An undefined value removes the variable. */
  env(extra?: Readonly<Record<string, string | undefined>>): Env
  remove(): void
}

export function makeRoots(options: { base?: string } = {}): Roots {
  const base = options.base ?? mkdtempSync('/tmp/phk-')
  const at = (name: string): string => {
    const path = join(base, name)
    mkdirSync(path, { recursive: true, mode: 0o700 })
    return path
  }
  const paths = {
    home: at('h'),
    runtime: at('r'),
    config: at('c'),
    data: at('d'),
    state: at('s'),
    cache: at('k'),
    work: at('w'),
  }
  return {
    base,
    ...paths,
    socket: join(paths.runtime, 'pohunek/daemon.sock'),
    env(extra = {}) {
      const all: Record<string, string | undefined> = {
        PATH: `${dirname(process.execPath)}:/usr/local/bin:/usr/bin:/bin`,
        HOME: paths.home,
        SHELL: '/bin/sh',
        LANG: 'C.UTF-8',
        TERM: 'xterm-256color',
        XDG_RUNTIME_DIR: paths.runtime,
        XDG_CONFIG_HOME: paths.config,
        XDG_DATA_HOME: paths.data,
        XDG_STATE_HOME: paths.state,
        XDG_CACHE_HOME: paths.cache,
        ...extra,
      }
      return Object.fromEntries(Object.entries(all).filter((it): it is [string, string] => it[1] !== undefined))
    },
    remove() {
      if (existsSync(base)) rmSync(base, { recursive: true, force: true, maxRetries: 3 })
    },
  }
}
