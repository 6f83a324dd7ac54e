import { mkdirSync, chmodSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { resolvePaths, type PathFacts } from '../../kernel/paths.ts'
import { privateDir } from '../../kernel/secure-files.ts'
import type { Fault } from '../../protocol/fault.ts'
import { temporary } from './fixtures/temporary.ts'

const facts: PathFacts = { uid: 1000, platform: 'linux', tmpdir: '/tmp' }
const env = { HOME: '/home/u', XDG_RUNTIME_DIR: '/run/user/1000' }
const fault = (run: () => unknown): Fault => {
  try {
    run()
  } catch (failure) {
    return failure as Fault
  }
  throw new Error('nothing was thrown')
}

test('defaults below HOME', () => {
  expect(resolvePaths(env, facts)).toMatchObject({
    runtime: '/run/user/1000/pohunek',
    runtimeIsFallback: false,
    config: '/home/u/.config/pohunek',
    data: '/home/u/.local/share/pohunek',
    state: '/home/u/.local/state/pohunek',
    cache: '/home/u/.cache/pohunek',
    home: '/home/u',
    daemonSocket: '/run/user/1000/pohunek/daemon.sock',
    logs: '/home/u/.local/state/pohunek/logs',
  })
})

test('every variable moves its directory', () => {
  const moved = {
    XDG_CONFIG_HOME: '/c',
    XDG_DATA_HOME: '/d/',
    XDG_STATE_HOME: '/s',
    XDG_CACHE_HOME: '/x/../k',
    XDG_RUNTIME_DIR: '/r',
  }
  expect(resolvePaths({ ...env, ...moved }, facts)).toMatchObject({
    config: '/c/pohunek',
    data: '/d/pohunek',
    state: '/s/pohunek',
    cache: '/k/pohunek',
    runtime: '/r/pohunek',
  })
})

test('paths of one session', () => {
  const paths = resolvePaths(env, facts)
  expect(paths.workerSocket('s-1')).toBe('/run/user/1000/pohunek/workers/s-1/control.sock')
  expect(paths.journals('s-1')).toBe('/home/u/.local/state/pohunek/workers/s-1')
  // sha256 of /home/u/.local/share/pohunek/metadata.jsonl
  expect(paths.sessionTmp('s-1')).toMatch(/^\/home\/u\/\.cache\/pohunek\/session-tmp\/[0-9a-f]{16}\/s-1$/)
  const other = resolvePaths({ ...env, XDG_DATA_HOME: '/d' }, facts)
  expect(other.sessionTmp('s-1')).not.toBe(paths.sessionTmp('s-1'))
  for (const id of ['..', '.', '', 'a/b', '.hidden', 'a\nb', 'x'.repeat(129)]) {
    expect(() => paths.journals(id)).toThrow('cannot be a session id')
    expect(() => paths.workerSocket(id)).toThrow('cannot be a session id')
    expect(() => paths.sessionTmp(id)).toThrow('cannot be a session id')
  }
})

test.each(['HOME', 'XDG_RUNTIME_DIR', 'XDG_CONFIG_HOME', 'XDG_DATA_HOME', 'XDG_STATE_HOME', 'XDG_CACHE_HOME'])(
  'an explicit bad %s is refused by name, never replaced by a default',
  (name) => {
    for (const value of ['', 'relative/dir', './x', '/bad\uFFFDbytes', '/nul\0']) {
      const failure = fault(() => resolvePaths({ ...env, [name]: value }, facts))
      expect(failure).toMatchObject({ class: 'configuration', code: 'paths_unavailable' })
      expect(failure.message.startsWith(name)).toBe(true)
      expect(failure.recover).toContain(name)
    }
  },
)

test('without HOME nothing can be placed', () => {
  expect(fault(() => resolvePaths({ XDG_RUNTIME_DIR: '/r' }, facts))).toMatchObject({
    code: 'paths_unavailable',
    message: 'HOME is not set',
  })
})

test('without XDG_RUNTIME_DIR a directory of this uid below the temporary directory is used, and only if it is private', () => {
  const tmpdir = temporary()
  const paths = resolvePaths({ HOME: '/home/u' }, { ...facts, tmpdir })
  expect(paths).toMatchObject({ runtime: join(tmpdir, 'pohunek-1000'), runtimeIsFallback: true })
  privateDir(paths.runtime)
  privateDir(paths.runtime)
  chmodSync(paths.runtime, 0o711)
  expect(() => privateDir(paths.runtime)).toThrow('its mode is 0711')
  mkdirSync(join(tmpdir, 'other'), { mode: 0o755 })
  expect(resolvePaths({ HOME: '/Users/u' }, { ...facts, platform: 'darwin' })).toMatchObject({
    runtime: '/private/tmp/pohunek-1000',
    cache: '/Users/u/Library/Caches/pohunek',
  })
})

/** A runtime directory that makes the path `<it>/pohunek<rest>` exactly `bytes` long. */
const runtimeFor = (bytes: number, rest: string): string =>
  `/${'r'.repeat(bytes - '/'.length - '/pohunek'.length - rest.length)}`
const STAGED = `/workers/s-${'0'.repeat(26)}/.s${'0'.repeat(16)}`

test('FC-5b46: socket paths that do not fit are refused with path, length, limit and way out, before any file is made', () => {
  for (const [platform, limit] of [
    ['linux', 107],
    ['darwin', 103],
  ] as const) {
    const at = (dir: string) => () => resolvePaths({ HOME: '/home/u', XDG_RUNTIME_DIR: dir }, { ...facts, platform })
    expect(at(runtimeFor(limit, STAGED))).not.toThrow()
    const failure = fault(at(runtimeFor(limit + 1, STAGED)))
    expect(failure).toMatchObject({ class: 'configuration', code: 'worker_socket_path_invalid' })
    expect(failure.message).toContain(`takes ${limit + 1} bytes, the limit of this system is ${limit}`)
    expect(failure.message).toContain('/workers/s-')
    const room = Number(/at most (\d+) bytes/.exec(failure.recover ?? '')?.[1])
    expect(at(`/${'r'.repeat(room - 1)}`)).not.toThrow()
    expect(at(`/${'r'.repeat(room)}`)).toThrow()
    const daemon = fault(at(runtimeFor(limit + 1, '/daemon.sock')))
    expect(daemon).toMatchObject({ code: 'paths_unavailable' })
    expect(daemon.message).toContain(`takes ${limit + 1} bytes`)
  }
  // Bytes count, not characters.
  expect(() => resolvePaths({ ...env, XDG_RUNTIME_DIR: `/${'ž'.repeat(30)}` }, facts)).toThrow(/bytes/)
  const longId = 'x'.repeat(60)
  expect(fault(() => resolvePaths(env, facts).workerSocket(longId))).toMatchObject({
    code: 'worker_socket_path_invalid',
  })
})
