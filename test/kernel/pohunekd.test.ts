/** The program itself: arguments, signals, exit codes, what a failed start says. */
import { ALL_BUT_SYSTEM } from '../harness/plugin-names.ts'
import { spawnSync } from 'node:child_process'
import { existsSync } from 'node:fs'
import { expect, onTestFinished, test } from 'vitest'
import { startDaemon, type Daemon } from '../harness/daemon.ts'
import { bin, makeRoots, type Roots } from '../harness/roots.ts'
import { rawClient } from '../harness/ndjson.ts'
import { until } from '../harness/wait.ts'

function roots(): Roots {
  const made = makeRoots()
  onTestFinished(() => made.remove())
  return made
}

async function daemon(at: Roots, args: readonly string[] = ['--without', ALL_BUT_SYSTEM]): Promise<Daemon> {
  const started = await startDaemon(at, { args })
  onTestFinished(() => started.kill())
  return started
}

function run(at: Roots, args: readonly string[], env: Record<string, string | undefined> = {}) {
  return spawnSync(bin('pohunekd'), args, { env: at.env(env), encoding: 'utf8', timeout: 15_000 })
}

test.each(['SIGTERM', 'SIGINT'] as const)('%s ends it cleanly', async (signal) => {
  const at = roots()
  const it = await daemon(at)
  expect(existsSync(at.socket)).toBe(true)
  it.signal(signal)
  expect(await it.ended()).toEqual({ code: 0, signal: null })
  expect(existsSync(at.socket)).toBe(false)
  expect(it.output).toBe('')
})

test('usage and version', () => {
  const at = roots()
  expect(run(at, ['--help'])).toMatchObject({ status: 0, stdout: expect.stringContaining('usage: pohunekd') })
  expect(run(at, ['--version'])).toMatchObject({
    status: 0,
    stdout: expect.stringMatching(/^pohunekd \d+\.\d+\.\d+\n$/),
  })
  expect(run(at, ['--nope'])).toMatchObject({ status: 2, stderr: expect.stringContaining('--nope') })
})

test.each([
  [
    ['--without', 'sessions'],
    {},
    /pohunekd: plugin packages needs sessions of plugin sessions, which is left out\n {2}→ /,
  ],
  [['--without', 'nonesuch'], {}, /pohunekd: no plugin "nonesuch" in this build\n {2}→ use names of /],
  [[], { XDG_RUNTIME_DIR: 'relative' }, /pohunekd: XDG_RUNTIME_DIR .*\n {2}→ /],
])('a start with %j %j fails with one line and its remedy', (args, env, text) => {
  const at = roots()
  const { status, stderr, stdout } = run(at, args, env)
  expect({ status, stdout }).toEqual({ status: 1, stdout: '' })
  expect(stderr).toMatch(text)
  expect(stderr.trimEnd().split('\n')).toHaveLength(2)
})

test('FC-d87f: of six started at once over the socket of a killed one, exactly one stays and serves', async () => {
  const at = roots()
  const first = await daemon(at)
  await first.kill()
  expect(existsSync(at.socket)).toBe(true)
  const args = ['--without', ALL_BUT_SYSTEM]
  const all = await Promise.all(Array.from({ length: 6 }, () => startDaemon(at, { args, unready: true })))
  onTestFinished(async () => void (await Promise.all(all.map((it) => it.kill()))))
  const losers = (): Daemon[] => all.filter((it) => !it.running)
  await until('five gave up', () => losers().length === 5)
  for (const it of losers()) {
    expect((await it.ended()).code).toBe(1)
    expect(it.output).toMatch(/another pohunekd .*holds /)
  }
  await until('the sixth serves', () => rawClient(at.socket).then(() => true))
  const raw = await rawClient(at.socket)
  expect((await raw.ask('daemon.health')).ok).toMatchObject({ status: 'ok' })
})
