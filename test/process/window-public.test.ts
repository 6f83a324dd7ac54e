/** The public protocol's window on real sockets: recorded conversations of protocol 3, and neighbouring releases. */
import { readdirSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, test } from 'vitest'
import { plugins } from '../../main/plugins.ts'
import { play, readConversation } from '../fixtures/conversation.ts'
import { otherRelease } from '../fixtures/other-release.ts'
import { run } from '../harness/cli.ts'
import { CHILD, REPOSITORY } from '../harness/roots.ts'
import { Session } from '../harness/session.ts'
import type { Answer } from '../harness/wire.ts'
import { world } from '../harness/world.ts'

const RECORDED = join(REPOSITORY, 'test/fixtures/v3')
const served = new Set(plugins.flatMap((it) => Object.keys(it.contract.methods)))
const NEVER_IN_3 = ['worker_instance_id', 'previous_worker_instance_id', 'native_last_activity_at', 'background']

/** Keys of protocol 4 in a line for protocol 3, wherever they are but in what users wrote. */
function newer(value: Answer, at = ''): string[] {
  if (typeof value !== 'object' || value === null) return []
  return Object.entries(value as Record<string, Answer>).flatMap(([key, held]) =>
    key === 'metadata' ? [] : [...(NEVER_IN_3.includes(key) ? [`${at}.${key}`] : []), ...newer(held, `${at}.${key}`)],
  )
}

describe('a recorded conversation of protocol 3', () => {
  for (const file of readdirSync(RECORDED).filter((it) => it.endsWith('.ndjson'))) {
    const conversation = readConversation(join(RECORDED, file))
    const missing = conversation.needs.filter((it) => !served.has(it))
    const why = missing.length > 0 ? ` (this build has no ${missing.join(', ')})` : ''
    test.skipIf(missing.length > 0)(`${file}: ${conversation.about}${why}`, async () => {
      const w = await world()
      let shown = false
      const lines = await play(conversation, {
        socket: w.roots.socket,
        names: { agent: w.profile(process.execPath, [CHILD, 'lines_in']), cwd: w.roots.work },
        keep: (it) => w.keep(it),
        between: async (names) => {
          const id = names.get('session')
          if (id === undefined || shown) return
          shown = true
          await new Session(w, { id, pid: 0 }).untilScreen('ready')
        },
      })
      expect(lines.length).toBeGreaterThan(0)
      for (const line of lines.filter((it) => it.v === 3)) expect([line, newer(line)]).toEqual([line, []])
    })
  }
})

/** What a user does: everything must work or say at once why not. */
async function cliStory(cli: string, daemon: string): Promise<{ list: Answer; screen: string; stop: number | null }> {
  const w = await world({ daemon: false })
  await w.start({ program: daemon })
  const options = { env: w.roots.env({ POHUNEK_NO_START: '1' }), cwd: w.roots.work }
  const agent = w.profile(process.execPath, [CHILD, 'lines_in'])
  const made = await run(
    cli,
    ['session', 'new', '--agent', agent, '--name', 'over', '--cols', '80', '--rows', '24', '--json'],
    options,
  )
  expect(made, made.stderr).toMatchObject({ code: 0 })
  const { id } = JSON.parse(made.stdout).ok
  await new Session(w, { id, pid: 0 }).untilScreen('ready')
  const list = await run(cli, ['session', 'list', '--json'], options)
  const screen = await run(cli, ['session', 'screen', id], options)
  const stop = await run(cli, ['session', 'stop', id], options)
  return { list: JSON.parse(list.stdout).ok, screen: screen.stdout, stop: stop.code }
}

const own = join(REPOSITORY, 'bin')
const three = { public: { minimum: 3, maximum: 3 } }
const five = { public: { minimum: 4, maximum: 5 } }

test.each<[string, () => Promise<[cli: string, daemon: string]>]>([
  ['a daemon of protocol 3 and this CLI', async () => [join(own, 'pohunek'), (await otherRelease(three)).daemon]],
  ['this daemon and a CLI of protocol 3', async () => [(await otherRelease(three)).cli, join(own, 'pohunekd')]],
  ['a daemon of protocol 4 to 5 and this CLI', async () => [join(own, 'pohunek'), (await otherRelease(five)).daemon]],
  ['this daemon and a CLI of protocol 4 to 5', async () => [(await otherRelease(five)).cli, join(own, 'pohunekd')]],
])('FC-90fd: %s understand each other', async (_, programs) => {
  const [cli, daemon] = await programs()
  const { list, screen, stop } = await cliStory(cli, daemon)
  const [session] = list
  expect(session).toMatchObject({ name: 'over', state: 'running', runtime: { state: 'live' } })
  expect(screen).toContain('ready')
  expect(stop).toBe(0)
})

test.each<[string, () => Promise<[cli: string, daemon: string]>, RegExp]>([
  [
    'a daemon without a common version',
    async () => [join(own, 'pohunek'), (await otherRelease({ public: { minimum: 5, maximum: 6 } })).daemon],
    /5\.\.=6/,
  ],
  [
    'a CLI without a common version',
    async () => [(await otherRelease({ public: { minimum: 1, maximum: 2 } })).cli, join(own, 'pohunekd')],
    /1\.\.=2/,
  ],
])('FC-90fd: %s is told with both ranges, and no second daemon is started', async (_, programs, range) => {
  const [cli, daemon] = await programs()
  const w = await world({ daemon: false, end: 'kill' })
  await w.start({ program: daemon })
  const { code, stdout, stderr } = await run(cli, ['session', 'list'], { env: w.roots.env(), cwd: w.roots.work })
  expect([code, stdout]).toEqual([1, ''])
  expect(stderr).toMatch(/version_mismatch|protocol/)
  expect(stderr).toMatch(range)
  expect(stderr).toMatch(/3\.\.=4/)
  expect(w.running('daemon').map((it) => it.pid)).toEqual([w.daemon.pid])
})

test('hooks of a session launched under protocol 3 keep working when a newer daemon takes over', async () => {
  const { daemon } = await otherRelease(three)
  const w = await world({ daemon: false })
  await w.start({ program: daemon })
  const session = await w.session(process.execPath, [join(REPOSITORY, 'test/fixtures/hook.mjs')], { cols: 200 })
  await session.untilScreen('pinned:3')
  const asks = async (number: number, method: string, params: string): Promise<Answer> => {
    await session.input(`${method}\t${params}`)
    const screen = await session.untilScreen(`answer:${number}:`)
    return JSON.parse(/answer:\d+:(\{.*?\})/.exec(screen.slice(screen.indexOf(`answer:${number}:`)))?.[1] ?? '')
  }
  expect(await asks(1, 'session.inspect', '"$SESSION"')).toEqual({ v: 3, code: 'ok', own: true })
  await w.daemon.kill()
  await w.start()
  expect(await asks(2, 'session.inspect', '"$SESSION"')).toEqual({ v: 3, code: 'ok', own: true })
  const report = `{"session_id":"$SESSION","runtime_id":"$RUNTIME","agent":"claude","pid":1,"pid_start_identity":"1","sequence":"1","expires_at":"2026-11-30T10:00:30Z","native_session_id":"n"}`
  const answer = await asks(3, 'session.report_native_id', report)
  // Whether it is believed is for the method to say; its old spelling is understood where the method is served.
  expect([answer.v, served.has('session.report_native_id') ? answer.code !== 'bad_request' : answer.code]).toEqual(
    served.has('session.report_native_id') ? [3, true] : [3, 'method_not_found'],
  )
})
