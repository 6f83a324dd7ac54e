/** Supervision by units, against a real systemd user manager. */
import { execFileSync } from 'node:child_process'
import { createHash } from 'node:crypto'
import net from 'node:net'
import { once } from 'node:events'
import { existsSync, mkdirSync, readFileSync, readdirSync, rmSync, writeFileSync } from 'node:fs'
import { basename, join } from 'node:path'
import { afterAll, describe, expect, onTestFinished, test } from 'vitest'
import { systemClock } from '../../kernel/clock.ts'
import { processes } from '../../platform/index.ts'
import { busSocket } from '../../platform/linux/systemd-answers.ts'
import { SystemdSupervisor, type SystemdOptions } from '../../platform/linux/systemd-supervisor.ts'
import { canOpenFiles } from '../../platform/linux/systemd-unit.ts'
import { startUserSystemd } from '../harness/user-systemd.ts'
import { until } from '../harness/wait.ts'
import { temporary } from './fixtures/temporary.ts'
import { jobFor, readReport, SESSION, supervisorSuite, workersOf, type SuiteWorld } from './supervisor-suite.ts'

const never = new AbortController().signal
const manager = await startUserSystemd()
afterAll(async () => {
  if (typeof manager !== 'string') await manager[Symbol.asyncDispose]()
})

describe.skipIf(typeof manager === 'string')('systemd', () => {
  if (typeof manager === 'string') return
  const version = manager.systemctl('show', '-p', 'Version', '--value')

  interface UnitWorld extends SuiteWorld {
    readonly namespace: string
    readonly open: (options?: Partial<SystemdOptions>) => SystemdSupervisor
    readonly unit: (generation?: number) => string
    readonly units: () => string[]
    readonly record: (generation?: number) => string
  }

  function world(fixed: Partial<SystemdOptions> = {}): UnitWorld {
    if (typeof manager === 'string') throw new Error(manager)
    const directory = temporary()
    const namespace = createHash('sha256').update(directory).digest('hex').slice(0, 16)
    const state = join(directory, 'state')
    mkdirSync(state, { mode: 0o700 })
    const units = (): string[] => manager.units(`pohunek-${namespace}-worker-*`)
    const recorded = (): string[] => {
      const files = existsSync(join(state, 'units')) ? readdirSync(join(state, 'units')) : []
      // Every unit has its record; a record may have no unit any more.
      return [
        ...new Set([
          ...files.map((it) => basename(it, '.json')),
          ...units().map((it) => it.replace(/^.*-worker-(.*)\.service$/, '$1')),
        ]),
      ]
    }
    onTestFinished(() => {
      for (const unit of units()) manager.systemctl('kill', '--signal=KILL', '--', unit)
    })
    return {
      directory,
      namespace,
      recorded,
      units,
      record: (generation = 1) => join(state, 'units', `${SESSION}-${generation}.json`),
      unit: (generation = 1) => `pohunek-${namespace}-worker-${SESSION}-${generation}.service`,
      open: (options = {}) =>
        new SystemdSupervisor({
          state,
          namespace,
          bus: busSocket(manager.env),
          processes,
          clock: systemClock,
          workerLog: (id) => `/logs/pohunek-session-${id}.jsonl`,
          ...fixed,
          ...options,
        }),
    }
  }

  supervisorSuite({ name: 'NOTIFY_SOCKET', adds: ['NOTIFY_SOCKET'], world: () => world({ ready: 'environment' }) })
  // What is found by the version itself.
  if (canOpenFiles(version)) supervisorSuite({ name: 'descriptor', adds: [], world })
  else test.skip(`descriptor: the suite (this systemd is ${version}, OpenFile= came with 253)`, () => undefined)

  test('the unit is what the contract says, a sibling in the slice of sessions', async () => {
    const { open, unit, namespace } = world()
    await using supervisor = open()
    const { pid } = await supervisor.start(jobFor('run'), never)
    const show = (property: string): string => manager.show(unit(), property)
    expect({
      type: show('Type'),
      kill: show('KillMode'),
      hup: show('SendSIGHUP'),
      oom: show('OOMPolicy'),
      restart: show('Restart'),
      slice: show('Slice'),
      partOf: show('PartOf'),
      bindsTo: show('BindsTo'),
      access: show('NotifyAccess'),
      transient: show('Transient'),
      pid: show('MainPID'),
      state: show('ActiveState'),
    }).toEqual({
      type: 'notify',
      kill: 'control-group',
      hup: 'yes',
      oom: 'continue',
      restart: 'no',
      slice: `pohunek-${namespace}-sessions.slice`,
      partOf: '',
      bindsTo: '',
      access: 'main',
      transient: 'yes',
      pid: String(pid),
      state: 'active',
    })
    await supervisor.retire(jobFor('run'), 1_000)
  })

  test("somebody else's unit of our name is a mismatch and stays", async () => {
    const { open, unit, directory } = world()
    await using supervisor = open()
    const command = ['-q', `--unit=${unit()}`, 'sleep', '600']
    execFileSync('systemd-run', ['--user', ...command], {
      env: { ...manager.env, PATH: process.env['PATH'], HOME: directory },
    })
    const pid = Number(manager.show(unit(), 'MainPID'))
    const [entry] = await supervisor.list()
    expect(entry?.status).toEqual({ state: 'mismatch', reason: `the unit's command has no --session-id ${SESSION}` })
    expect(await supervisor.retire(jobFor('run'), 10)).toBe('mismatch')
    await expect(supervisor.start(jobFor('run'), never)).rejects.toMatchObject({ code: 'worker_operation_failed' })
    expect(processes.identify(pid)).toBeDefined()
    manager.systemctl('stop', unit())
    expect(await supervisor.list()).toEqual([])
  })

  test('a worker that ends while it is looked at is running or ended, whatever the manager has forgotten', async () => {
    const { open } = world()
    await using supervisor = open()
    for (let generation = 1; generation <= 8; generation++) {
      const job = jobFor('run', { generation })
      const identity = await supervisor.start(job, never)
      process.kill(identity.pid, 'SIGTERM')
      const looks = await Promise.all(
        Array.from({ length: 8 }, async () => {
          const seen = new Set<string>()
          let status = await supervisor.inspect(job)
          for (; status.state === 'running'; status = await supervisor.inspect(job)) seen.add(status.state)
          for (let more = 0; more < 20; more++) {
            seen.add(status.state === 'mismatch' ? status.reason : status.state)
            status = await supervisor.inspect(job)
          }
          return [...seen]
        }),
      )
      expect(looks.flat().filter((it) => it !== 'running' && it !== 'ended')).toEqual([])
      expect(await supervisor.retire(job, 1_000)).toBe('retired')
    }
  })

  test('a worker that ended well is told as ended although the manager has forgotten its unit', async () => {
    const { open, units, recorded } = world()
    await using supervisor = open()
    const identity = await supervisor.start(jobFor('run'), never)
    process.kill(identity.pid, 'SIGTERM')
    await until('the unit is gone', () => units().length === 0)
    expect(await supervisor.list()).toEqual([
      { job: { sessionId: SESSION, generation: 1 }, status: { state: 'ended' } },
    ])
    expect(await supervisor.retire(jobFor('run'), 10)).toBe('retired')
    expect(recorded()).toEqual([])
  })

  test('a worker that is retired twice at once is retired for both', async () => {
    const { open, recorded } = world()
    await using supervisor = open()
    for (const graces of [
      [100, 3_000],
      [3_000, 100],
    ]) {
      const identity = await supervisor.start(jobFor('stubborn'), never)
      const retirements = graces.map((graceMs) => supervisor.retire(jobFor('stubborn'), graceMs))
      expect(await Promise.all(retirements)).toEqual(['retired', 'retired'])
      expect(processes.isRunning(identity)).toBe(false)
      expect(recorded()).toEqual([])
    }
  })

  test('a unit without a record, as after a lost state directory, is found and proven by itself', async () => {
    const { open, record } = world()
    await using supervisor = open()
    const process = await supervisor.start(jobFor('run'), never)
    rmSync(record())
    expect(await supervisor.list()).toEqual([
      { job: { sessionId: SESSION, generation: 1 }, status: { state: 'running', process } },
    ])
    expect(await supervisor.retire(jobFor('run'), 1_000)).toBe('retired')
  })

  test('a record of another boot has ended, and no manager is needed to say so', async () => {
    const { open, record, directory } = world()
    await using supervisor = open()
    const identity = await supervisor.start(jobFor('run'), never)
    const text = readFileSync(record(), 'utf8')
    writeFileSync(record(), text.replace(processes.bootId(), 'another-boot'))
    await using far = open({ bus: join(directory, 'no-bus') })
    expect(await far.inspect(jobFor('run'))).toEqual({ state: 'ended' })
    expect(processes.isRunning(identity)).toBe(true)
    writeFileSync(record(), text)
    await supervisor.retire(jobFor('run'), 1_000)
  })

  test.each([
    ['a damaged record', (text: string) => text.slice(0, 20), /damaged/],
    ['another definition', (text: string) => text.replace('"--do","run"', '"--do","other"'), /defined otherwise/],
    ['another process', (text: string) => text.replace(/"pid":\d+/, '"pid":1'), /not the recorded 1/],
  ])('%s is a mismatch: nothing is stopped', async (_, change, reason) => {
    const { open, record } = world()
    await using supervisor = open()
    const identity = await supervisor.start(jobFor('run'), never)
    const text = readFileSync(record(), 'utf8')
    writeFileSync(record(), change(text))
    expect(await supervisor.inspect(jobFor('run'))).toMatchObject({
      state: 'mismatch',
      reason: expect.stringMatching(reason) as string,
    })
    expect(await supervisor.retire(jobFor('run'), 10)).toBe('mismatch')
    expect(processes.isRunning(identity)).toBe(true)
    writeFileSync(record(), text)
    await supervisor.retire(jobFor('run'), 1_000)
  })

  test('a manager that is not there: nothing is known, nothing is told as gone', async () => {
    const { directory, open } = world()
    for (const bus of [undefined, join(directory, 'no-bus')]) {
      await using supervisor = open({ bus })
      await expect(supervisor.inspect(jobFor('run'))).rejects.toMatchObject({ code: 'runtime_supervision_unavailable' })
      await expect(supervisor.retire(jobFor('run'), 10)).rejects.toMatchObject({
        code: 'runtime_supervision_unavailable',
      })
      await expect(supervisor.list()).rejects.toMatchObject({ code: 'runtime_supervision_unavailable' })
      await expect(supervisor.start(jobFor('run'), never)).rejects.toMatchObject({ code: 'worker_manager_unavailable' })
    }
  })

  test('a bus that does not answer is given up at the deadline', async () => {
    const { directory, open } = world()
    const socket = join(directory, 'mute')
    const server = net.createServer(() => undefined).listen(socket)
    await once(server, 'listening')
    await using supervisor = open({ bus: socket, callMs: 200 })
    await expect(supervisor.inspect(jobFor('run'))).rejects.toMatchObject({
      code: 'runtime_supervision_unavailable',
      message: expect.stringContaining('200 ms') as string,
    })
    server.close()
  })

  test('a manager that does not answer is not asked again for each of many jobs', async () => {
    const { directory, open } = world()
    const socket = join(directory, 'silent')
    let asked = 0
    const server = net.createServer(() => asked++).listen(socket)
    await once(server, 'listening')
    await using supervisor = open({ bus: socket, callMs: 200 })
    for (let generation = 1; generation <= 50; generation++) {
      await expect(supervisor.inspect(jobFor('run', { generation }))).rejects.toMatchObject({
        code: 'runtime_supervision_unavailable',
        message: expect.stringContaining('200 ms') as string,
      })
    }
    expect(asked).toBeLessThan(5)
    server.close()
  })

  test.each([
    ['no answer of a bus', Buffer.from('HTTP/1.1 400 Bad Request\r\n\r\n'), ''],
    [
      'a length over all bounds',
      Buffer.from([0x6c, 2, 0, 1, 0xf0, 0xff, 0xff, 0xff, 1, 0, 0, 0, 0xf0, 0xff, 0xff, 0xff]),
      'OK 12\r\n',
    ],
    [
      'fields of no type',
      Buffer.concat([Buffer.from([0x6c, 2, 0, 1, 8, 0, 0, 0, 1, 0, 0, 0, 16, 0, 0, 0]), Buffer.alloc(24, 0xff)]),
      'OK 12\r\n',
    ],
  ])('a bus that talks nonsense (%s) is one that is away', async (_, nonsense, welcome) => {
    const { directory, open } = world()
    const socket = join(directory, 'nonsense')
    const server = net.createServer((client) => {
      client.on('error', () => undefined)
      client.once('data', () => {
        if (welcome !== '') client.write(welcome)
        client.on('data', () => client.write(nonsense))
        if (welcome === '') client.write(nonsense)
      })
    })
    server.listen(socket)
    await once(server, 'listening')
    for (let look = 0; look < 3; look++) {
      await using supervisor = open({ bus: socket, callMs: 300 })
      await expect(supervisor.inspect(jobFor('run'))).rejects.toMatchObject({ code: 'runtime_supervision_unavailable' })
    }
    server.close()
  })

  test('a lost connection fails what was asked and is made again for the next question', async () => {
    const { directory, open } = world()
    const socket = join(directory, 'relay')
    const relayed = new Set<net.Socket>()
    const server = net.createServer((client) => {
      const bus = net.connect(busSocket(manager.env) ?? '')
      for (const it of [client, bus]) relayed.add(it.on('error', () => undefined))
      client.pipe(bus).pipe(client)
    })
    server.listen(socket)
    await once(server, 'listening')
    await using supervisor = open({ bus: socket })
    const identity = await supervisor.start(jobFor('run'), never)
    const report = join(directory, 'report')
    const starting = supervisor.start(jobFor('hang', { generation: 2, env: { REPORT: report } }), never)
    const failed = expect(starting).rejects.toMatchObject({ code: 'worker_manager_unavailable' })
    await until('the second worker runs', () => readReport(report))
    for (const it of relayed) it.destroy()
    await failed
    expect(await supervisor.inspect(jobFor('run'))).toEqual({ state: 'running', process: identity })
    expect(await supervisor.inspect(jobFor('hang', { generation: 2 }))).toEqual({ state: 'absent' })
    await supervisor.retire(jobFor('run'), 1_000)
    expect(workersOf()).toEqual([])
    for (const it of relayed) it.destroy()
    server.close()
  })

  test('many workers are listed in one go', async () => {
    const { open } = world()
    await using supervisor = open()
    const generations = Array.from({ length: 20 }, (_, index) => index + 1)
    await Promise.all(generations.map((generation) => supervisor.start(jobFor('run', { generation }), never)))
    const listed = await supervisor.list()
    expect(listed.map((it) => it.job.generation).sort((a, b) => a - b)).toEqual(generations)
    expect(listed.every((it) => it.status.state === 'running')).toBe(true)
    await Promise.all(generations.map((generation) => supervisor.retire({ sessionId: SESSION, generation }, 1_000)))
    expect(await supervisor.list()).toEqual([])
  })
})
