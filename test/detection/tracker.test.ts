/** Real terminals, processes and agents: what is published of them, and that nothing else is. */
import { copyFileSync, chmodSync, symlinkSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, test } from 'vitest'
import { delay, systemClock } from '../../kernel/clock.ts'
import { processes } from '../../platform/index.ts'
import { detectionPlugin } from '../../plugins/detection/plugin.ts'
import notifications from '../../plugins/notifications/plugin.ts'
import waits from '../../plugins/waits/plugin.ts'
import { look } from '../harness/processes.ts'
import { refused, Session } from '../harness/session.ts'
import { until } from '../harness/wait.ts'
import type { Answer, Events } from '../harness/wire.ts'
import {
  COMPOSER,
  MANIFEST,
  QUESTION,
  report,
  screen,
  shows,
  STUB,
  theatre,
  title,
  UNKNOWN,
  WORKING,
} from './theatre.ts'

const story = (events: Events, session: Session): string[] =>
  events.of('agent_state', session.id).map((it) => it.activity)

/** The worker of a session is the parent of its program. */
function workerOf(session: Session): number {
  const found = look(session.pid)?.ppid
  if (found === undefined) throw new Error('the program is gone')
  return found
}

describe('the life of an agent', () => {
  test('is told in order, with growing revisions, epoch and runtime', async () => {
    const it = await theatre()
    const events = await it.station.events()
    const session = await it.agent()
    await session.stub.write(COMPOSER)
    await shows(session, 'idle')
    await session.stub.write(WORKING)
    expect(await shows(session, 'working')).toMatchObject({ state_source: 'screen' })
    await session.stub.write(QUESTION)
    await shows(session, 'blocked')
    await session.stub.write(title('⠋ job'), UNKNOWN)
    expect(await shows(session, 'working')).toMatchObject({ state_source: 'osc_title' })
    await session.stub.write(title('stub'), COMPOSER)
    await shows(session, 'idle')
    expect(story(events, session)).toEqual(['idle', 'working', 'blocked', 'working', 'idle'])
    const told = events.of('agent_state', session.id)
    const runtime = await session.identity()
    const revisions = told.map((one) => BigInt(one.revision))
    expect(revisions).toEqual([...revisions].sort((a, b) => (a < b ? -1 : 1)))
    expect(new Set(revisions).size).toBe(told.length)
    for (const one of told) {
      expect(one).toMatchObject({ runtime, activity_epoch: told[0].activity_epoch })
      expect(Object.keys(one).sort()).toEqual(
        ['activity', 'activity_epoch', 'event', 'revision', 'runtime', 'session_id', 'source', 'v'].sort(),
      )
    }
  })

  test('A1: rest is told before a second has passed for the agent itself', async () => {
    const it = await theatre()
    const events = await it.station.events()
    const session = await it.agent()
    await session.stub.write(WORKING)
    await shows(session, 'working')
    const known = events.all.length
    await session.stub.order('steps', [COMPOSER])
    await session.stub.order('later', { ms: 1_000, tag: 'second' })
    await until('a second passed', () => session.stub.heard.some((one) => one.tag === 'second'))
    expect(events.all.slice(known).map((one) => one.activity)).toContain('idle')
  })

  test('FC-61dc: a screen no rule knows shows nothing, and the evidence says so', async () => {
    const it = await theatre()
    const session = await it.agent()
    await session.stub.write(COMPOSER)
    await shows(session, 'idle')
    await session.stub.write(UNKNOWN)
    const info = await shows(session, undefined)
    expect(info.state_source).toBe('process')
    const told = await session.call('session.explain')
    expect(told).not.toHaveProperty('activity')
    expect(told.sources.every((one: { counted: boolean }) => !one.counted)).toBe(true)
    expect(told.identity).toMatchObject({ in_front: 'agent' })
  })

  test('FC-9b28: a question is seen from the screen alone', async () => {
    const it = await theatre()
    const events = await it.station.events()
    const session = await it.agent()
    await session.stub.write(WORKING, title('⠋ job'))
    await shows(session, 'working')
    await session.stub.write(QUESTION)
    await shows(session, 'blocked')
    expect(story(events, session)).toEqual(['working', 'blocked'])
  })

  test('reports of the agent count, those of another program do not', async () => {
    const it = await theatre()
    const session = await it.agent()
    await session.stub.write(COMPOSER)
    await shows(session, 'idle')
    await session.stub.write('\x1b]7501;state=working:app=somebody\x1b\\')
    await session.stub.write(report('blocked', ':kind=permission'))
    expect(await shows(session, 'blocked')).toMatchObject({ state_source: 'report' })
    await session.stub.write(report('working'))
    expect(await shows(session, 'working')).toMatchObject({ state_source: 'report' })
    await session.stub.write(report('done'))
    await shows(session, 'idle')
  })

  test('FC-0f38: a turn between two looks still moves the revision', async () => {
    const it = await theatre()
    const events = await it.station.events()
    const session = await it.agent()
    await session.stub.write(COMPOSER)
    await shows(session, 'idle')
    await session.stub.order('submit', [report('working') + report('done') + COMPOSER])
    await session.input('hi')
    await until('the turn was told', () => story(events, session).length >= 3, { show: () => story(events, session) })
    expect(story(events, session)).toEqual(['idle', 'working', 'idle'])
  })

  test('FC-0f38: also of an agent that reports nothing', async () => {
    const it = await theatre()
    const events = await it.station.events()
    const session = await it.agent()
    await session.stub.write(COMPOSER)
    await shows(session, 'idle')
    const { revision } = await session.call('session.explain')
    await session.stub.order('submit', [COMPOSER])
    await session.input('hi')
    const again = await events.until('agent_state', (one) => BigInt(one.revision) > BigInt(revision))
    expect(again.activity).toBe('idle')
  })
})

describe('whose screen it is', () => {
  test('FC-8d56: text that looks like an agent is none, in a shell or in an answer', async () => {
    const it = await theatre()
    const events = await it.station.events()
    const file = join(it.station.roots.work, 'log')
    writeFileSync(file, `${WORKING}\r\n${QUESTION}\r\n> \r\n`)
    const shell = await it.station.program('/bin/sh', ['-c', `cat ${file}; echo done; exec cat`])
    await shell.untilScreen('done')
    const session = await it.agent()
    await session.stub.write(
      screen('The log says:', 'Allow this?', '1. Yes', '* old (esc to interrupt)', '', 'and so on', 'and on', '', '> '),
    )
    await shows(session, 'idle')
    expect(story(events, session)).toEqual(['idle'])
    expect(await shell.info()).not.toHaveProperty('activity')
    expect(story(events, shell)).toEqual([])
  })

  test('FC-b4d2: a renamed program, a script and an env line are the agent', async () => {
    const it = await theatre()
    const { work } = it.station.roots
    const script = join(work, 'stub-cli.js')
    const line = join(work, 'stubby')
    for (const file of [script, line]) {
      copyFileSync(STUB, file)
      chmodSync(file, 0o755)
    }
    symlinkSync(process.execPath, join(work, '.stub-unwrapped'))
    writeFileSync(join(work, 'package.json'), '{"type":"module"}')
    const path = `PATH=${join(process.execPath, '..')}:/usr/bin:/bin`
    for (const [program, args] of [
      [join(work, '.stub-unwrapped'), [script, it.socketPath]],
      [process.execPath, [script, it.socketPath]],
      ['/usr/bin/env', [path, line, it.socketPath]],
      ['/bin/sh', ['-c', `${process.execPath} ${STUB} ${it.socketPath}; true`]],
    ] as const) {
      const session = await it.agent(program, args)
      await session.stub.write(COMPOSER)
      await shows(session, 'idle')
      expect((await session.call('session.explain')).identity.in_front, program).toBe('agent')
      await session.remove()
    }
  })

  test('an agent that ended in a shell is no idle agent', async () => {
    const it = await theatre()
    const session = await it.agent('/bin/bash', [
      '-c',
      `set -m; ${process.execPath} ${STUB} ${it.socketPath}; printf '> '; read line; exec cat`,
    ])
    await session.stub.write(COMPOSER)
    await shows(session, 'idle')
    await session.stub.order('exit', 0)
    await shows(session, undefined)
    const { identity, sources } = await session.call('session.explain')
    expect(identity.in_front).toBe('other')
    expect(sources.find((one: { source: string }) => one.source === 'screen')).toMatchObject({
      says: 'idle',
      counted: false,
    })
    await session.input('go') // cat
    await delay(systemClock, 1_200)
    expect(await session.info()).not.toHaveProperty('activity')
  })

  test('an agent that ended without a word, in a wrapper that says nothing, rests for nobody who asks', async () => {
    const it = await theatre({ plugins: [detectionPlugin(processes), notifications, waits] })
    const quiet = `${process.execPath} ${STUB} ${it.socketPath}; sleep 600`
    const [listed, inspected, waited] = [
      await it.agent('/bin/sh', ['-c', quiet]),
      await it.agent('/bin/sh', ['-c', `set -m; ${quiet}`]), // the agent has a process group of its own
      await it.agent('/bin/sh', ['-c', quiet]),
    ]
    for (const { stub } of [listed, inspected, waited]) await stub.write(COMPOSER)
    for (const one of [listed, inspected, waited]) await shows(one, 'idle')
    for (const { stub } of [listed, inspected, waited]) {
      const pid = await stub.pid()
      await stub.order('exit', 0) // killed, its shell would say so
      await until('it is gone', () => look(pid) === undefined)
    }
    // The list asks about all of them, and so comes last.
    await until('a wait does not find it at rest', async () => {
      const wait = { session_id: waited.id, activities: ['idle'], timeout_ms: 1 }
      const { reason, session } = await it.station.call('session.wait', wait)
      return reason === 'timeout' && session.activity === undefined
    })
    await until('an inspection shows none', async () => (await inspected.info()).activity === undefined)
    await until('a list shows no activity', async () => {
      const all = (await it.station.call('session.list', { filters: [{ key: 'id', value: listed.id }] })) as Answer[]
      return all[0].state === 'running' && all[0].activity === undefined
    })
  })

  test('a launched program that became another one is no agent, with or without patterns', async () => {
    const it = await theatre()
    it.manifest('nameless', MANIFEST.replace(/\[process\]\ncmdline.*/, ''))
    const run = `printf 'an answer\\r\\n> '; read line; exec /bin/cat`
    const agent = it.profile('/bin/bash', ['-c', run], ['manifest = "nameless"'])
    const session = new Session(it.station, await it.station.create({ agent }))
    await shows(session, 'idle')
    await session.input('')
    await until('it is another program', () => look(session.pid)?.argv[0] === '/bin/cat')
    expect((await session.call('session.explain')).identity).toMatchObject({
      in_front: 'other',
      why: 'the launched program became another one',
    })
    await shows(session, undefined)
  })

  test('FC-8d56: of a plain shell only what programs tell the terminal counts', async () => {
    const it = await theatre()
    const shell = new Session(it.station, await it.station.create({ agent: 'shell' }))
    await shell.input(`printf '\\033[2J\\033[H'; echo action required; echo working; echo end-of-text`)
    await shell.untilScreen(/^end-of-text/m)
    const { sources, identity } = await shell.call('session.explain')
    expect(sources.find((one: { source: string }) => one.source === 'screen')).toMatchObject({ says: 'nothing' })
    expect(identity.why).toContain('a shell')
    await delay(systemClock, 1_000)
    expect(await shell.info()).not.toHaveProperty('activity')
    await shell.input(`printf '\\033]2;working hard\\007'; read x`)
    expect(await shows(shell, 'working')).toMatchObject({ state_source: 'osc_title' })
  })

  test('another program over the agent hides it until it is gone', async () => {
    const it = await theatre()
    const session = await it.agent()
    await session.stub.write(COMPOSER)
    await shows(session, 'idle')
    const editor = join(it.station.roots.work, 'editor.sh')
    const closed = join(it.station.roots.work, 'closed')
    writeFileSync(
      editor,
      `printf '${COMPOSER.replaceAll('\x1b', '\\033').replaceAll('\r\n', '\\r\\n')}'; until test -e ${closed}; do sleep 0.05; done\n`,
    )
    await session.stub.order('run', ['/bin/bash', '-c', `set -m; /bin/sh ${editor}; true`])
    await shows(session, undefined)
    expect((await session.call('session.explain')).identity.in_front).toBe('other')
    writeFileSync(closed, '')
    await until('the editor left', () => session.stub.heard.some((one) => one.ran !== undefined))
    await session.stub.write(COMPOSER)
    await shows(session, 'idle')
  })

  test('FC-a45f: a process with the marker of another runtime does not count', async () => {
    const it = await theatre()
    const session = await it.agent('/bin/bash', [
      '-c',
      `set -m; POHUNEK_WORKER_INSTANCE_ID=w-another ${process.execPath} ${STUB} ${it.socketPath}; true`,
    ])
    await session.stub.write(COMPOSER)
    await session.untilScreen('an answer')
    expect((await session.call('session.explain')).identity.in_front).toBe('other')
    await delay(systemClock, 700)
    expect(await session.info()).not.toHaveProperty('activity')
  })
})

describe('the daemon', () => {
  test('looks at no session that rests', async () => {
    let looks = 0
    const it = await theatre({
      facts: {
        ...processes,
        foregroundGroup: (pid) => {
          looks++
          return processes.foregroundGroup(pid)
        },
      },
    })
    const session = await it.agent()
    await session.stub.write(COMPOSER)
    await shows(session, 'idle')
    await until('the last look', async () => {
      const before = looks
      await delay(systemClock, 500)
      return looks === before
    })
    const before = looks
    await delay(systemClock, 2_000)
    expect(looks).toBe(before)
  })

  test('tells nothing a store says, and finds every agent again after a restart', async () => {
    const it = await theatre()
    const earlier = await it.station.events()
    const [one, two] = [await it.agent(), await it.agent()]
    await one.stub.write(COMPOSER)
    await two.stub.write(QUESTION)
    await shows(one, 'idle')
    await shows(two, 'blocked')
    const [{ activity_epoch: before }] = earlier.of('agent_state') as [Answer]
    await it.station.drop()
    await one.stub.write(UNKNOWN)
    await it.station.start()
    const events = await it.station.events()
    await shows(two, 'blocked')
    await delay(systemClock, 500)
    expect(await one.info()).not.toHaveProperty('activity')
    expect(story(events, one)).toEqual([])
    await one.stub.write(WORKING)
    const first = await events.until('agent_state', (told) => told.session_id === one.id)
    expect(first.activity_epoch).toMatch(/^d-/)
    expect(first.activity_epoch).not.toBe(before)
  })

  test('takes back what it cannot see: a lost worker, an end', async () => {
    const it = await theatre({ allowErrors: true })
    const [lost, ends] = [await it.agent(), await it.agent()]
    for (const session of [lost, ends]) {
      await session.stub.write(COMPOSER)
      await shows(session, 'idle')
    }
    process.kill(workerOf(lost), 'SIGKILL')
    await until('the worker is lost', async () => (await lost.info()).runtime.state !== 'live')
    expect(await lost.info()).not.toHaveProperty('activity')
    await ends.stub.order('exit', 0)
    await ends.ended()
    expect(await ends.info()).not.toHaveProperty('activity')
    expect((await ends.call('session.explain')).identity.in_front).toBe('unknown')
    for (const { id } of [lost, ends]) {
      const told = it.changes.filter((one) => one.sessionId === id)
      expect(told.map((one) => [one.before, one.now?.activity, one.fresh])).toEqual([
        [undefined, 'idle', true],
        ['idle', undefined, true],
      ])
    }
  })

  test('is not held up by a worker that hangs', async () => {
    const it = await theatre()
    const [hangs, other] = [await it.agent(), await it.agent()]
    for (const session of [hangs, other]) {
      await session.stub.write(COMPOSER)
      await shows(session, 'idle')
    }
    const worker = workerOf(hangs)
    process.kill(worker, 'SIGSTOP')
    try {
      const asked = hangs.call('session.explain').catch(() => undefined)
      await other.stub.write(WORKING)
      await shows(other, 'working')
      await other.stub.write(QUESTION)
      await shows(other, 'blocked')
      process.kill(worker, 'SIGCONT')
      await asked
    } finally {
      process.kill(worker, 'SIGCONT')
    }
    await hangs.stub.write(WORKING)
    await shows(hangs, 'working')
  })
})

describe('manifests', () => {
  const own = (text: string): string => MANIFEST.replace('^>( |$)', text)

  test('an edit counts without a restart; a broken one leaves the last good one in charge and is told once', async () => {
    const it = await theatre()
    it.manifest('mine', own('^A>'))
    const session = await it.agent(process.execPath, [STUB, it.socketPath], ['manifest = "mine"'])
    const other = await it.agent()
    await session.stub.write(screen('A> '))
    await shows(session, 'idle')
    it.manifest('mine', own('^B>'))
    await session.stub.write(screen('B> ', 'x', 'B> '))
    await until('the new text is in use', async () => {
      const { manifest, sources } = await session.call('session.explain')
      return manifest.problem === undefined && sources.some((one: { says: string }) => one.says === 'idle')
    })
    await shows(session, 'idle')
    it.manifest('mine', own('^C>').replace('bottom_non_empty_lines(1)', 'somewhere'))
    for (let n = 0; n < 3; n++) {
      const { manifest } = await session.call('session.explain')
      expect(manifest.problem).toMatch(/mine\.toml.*region.*somewhere/)
    }
    await session.stub.write(WORKING)
    await shows(session, 'working')
    await session.stub.write(screen('B> '))
    await shows(session, 'idle')
    await other.stub.write(COMPOSER)
    await shows(other, 'idle')
    expect(it.station.log.filter((one) => one.message === 'a detection manifest cannot be used')).toHaveLength(1)
    const { report: doctor } = await it.station.call('daemon.doctor').catch(() => ({ report: undefined }))
    if (doctor !== undefined)
      expect(doctor.checks.find((one: { name: string }) => one.name === 'detection_manifests')).toMatchObject({
        status: 'warn',
      })
  })

  test('a launch with a manifest that cannot be read is refused, naming file and key', async () => {
    const it = await theatre()
    it.manifest('bad', own('^>').replace('state = "idle"', 'state = "asleep"'))
    const agent = it.profile(process.execPath, [STUB, it.socketPath], ['manifest = "bad"'])
    const refusal = await refused(it.station.create({ agent }))
    expect(refusal.code).toBe('invalid_profile')
    expect(refusal.message).toMatch(/bad\.toml.*composer.*state/)
    expect(await it.station.call('session.list')).toEqual([])
  })

  test('session.detection shows what is read', async () => {
    const it = await theatre()
    const session = await it.agent()
    await session.stub.write(title('stub'), COMPOSER)
    await shows(session, 'idle')
    const { previews, supported_regions } = await session.call('session.detection')
    expect(supported_regions).toHaveLength(10)
    expect(previews).toEqual([
      { kind: 'osc_title', region: 'osc_title', text: 'stub' },
      { kind: 'bottom_non_empty_lines', region: 'bottom_non_empty_lines(4)', text: 'an answer\n>' },
      { kind: 'bottom_non_empty_lines', region: 'bottom_non_empty_lines(3)', text: 'an answer\n>' },
      { kind: 'bottom_non_empty_lines', region: 'bottom_non_empty_lines(1)', text: '>' },
    ])
  })
})
