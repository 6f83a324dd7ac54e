/** What a program starts with, and starts that fail. */
import * as fs from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { childEnvironment } from '../../worker/child-env.ts'
import { parseArguments } from '../../worker/argv.ts'
import { marked, sh, startBareWorker, startWorker, until } from './harness.ts'

test('the environment is built from empty; reserved values win, the worker’s own never gets through', async () => {
  const worker = await startWorker()
  await worker.initialize(['/usr/bin/env'], {
    base_environment: {
      PATH: '/usr/bin:/bin',
      LANG: 'C.UTF-8',
      NOTIFY_SOCKET: '/x',
      WATCHDOG_USEC: '1',
      INVOCATION_ID: 'i',
    },
    environment: {
      MINE: 'yes',
      POHUNEK_SESSION_ID: 'forged',
      POHUNEK_OTHER: 'x',
      LANG: 'cs_CZ.UTF-8',
      JOURNAL_STREAM: '1',
    },
    launch: { agent: 'shell', agent_base: 'shell', reference_kind: 'id' },
    dimensions: { columns: 200, rows: 40 },
  })
  await worker.exited()
  const env = Object.fromEntries(
    (await worker.everything())
      .toString()
      .trim()
      .split(/\r\n/)
      .map((line) => [line.slice(0, line.indexOf('=')), line.slice(line.indexOf('=') + 1)]),
  )
  expect(env).toEqual({
    PATH: '/usr/bin:/bin',
    LANG: 'cs_CZ.UTF-8',
    MINE: 'yes',
    TERM: 'xterm-256color',
    COLORTERM: 'truecolor',
    POHUNEK_ENV: '1',
    POHUNEK_SESSION_ID: worker.sessionId,
    POHUNEK_WORKER_ID: worker.workerId,
    POHUNEK_WORKER_INSTANCE_ID: worker.runtimeId,
    POHUNEK_WORKER_SOCKET_PATH: worker.socketPath,
    POHUNEK_WORKER_HOOK_PROTOCOL_VERSION: '1',
    POHUNEK_SOCKET_PATH: join(worker.root, 'daemon.sock'),
    POHUNEK_PROTOCOL_VERSION: '4',
    POHUNEK_DAEMON_ID: 'd-test',
    POHUNEK_NATIVE_REFERENCE_KIND: 'id',
    POHUNEK_BACKGROUND_LABEL_MAX_BYTES: '160',
    POHUNEK_BACKGROUND_PROGRAM_MAX_BYTES: '64',
    POHUNEK_HOOK_TRACE_PATH: join(worker.state, 'logs/pohunek-hooks.jsonl'),
    POHUNEK_HOOK_TRACE_MAX_BYTES: '1048576',
  })
})

const BOUNDS: [string, Record<string, string>, RegExp][] = [
  ['too many entries', Object.fromEntries(Array.from({ length: 260 }, (_, n) => [`V${n}`, 'x'])), /entries/],
  ['a long name', { ['N'.repeat(129)]: 'x' }, /name of 129/],
  ['a long value', { BIG: 'x'.repeat(32_769) }, /BIG has 32769/],
  ['too much in all', { A: 'x'.repeat(30_000), B: 'y'.repeat(30_000) }, /environment of/],
  ['a NUL', { A: 'x\0y' }, /NUL/],
  ['no name', { '': 'x' }, /name/],
  ['an equals sign', { 'A=B': 'x' }, /name/],
]
for (const [name, environment, message] of BOUNDS) {
  test(`environment bounds: ${name}`, () => {
    expect(() => childEnvironment({}, environment, {})).toThrow(message)
    for (const value of Object.values(environment))
      if (value.length > 5) expect(() => childEnvironment({}, environment, {})).not.toThrow(value)
  })
}

test('a program leads its session and group on its terminal, in its directory, with default signals and no other descriptor', async () => {
  // Not the mask of our own files, and not a usual one either.
  const before = process.umask(0o026)
  const worker = await startWorker().finally(() => process.umask(before))
  const directory = join(worker.root, 'dir with space')
  fs.mkdirSync(directory)
  await worker.initialize(
    sh(
      'ps -o pid=,pgid=,sid=,tpgid= -p $$ | tr -s " "; pwd; grep -E "^Sig(Ign|Blk)" /proc/self/status; tty; umask; stty -a | head -1; exec sleep 60',
    ),
    { cwd: directory },
  )
  const screen = await worker.shows('speed')
  const [ids = '', cwd, blocked, ignored, terminal, mask = ''] = screen.visible_lines
  const pid = String(worker.childPid)
  const [own, group, session, foreground] = ids.trim().split(' ')
  expect([own, session]).toEqual([pid, pid])
  expect(group).toBe(pid)
  expect(foreground).toBe(pid)
  expect(cwd).toBe(directory)
  await until('no descriptor but its terminal', () => fs.readdirSync(`/proc/${pid}/fd`).join() === '0,1,2')
  expect(blocked).toMatch(/SigBlk:\s+0+$/)
  expect(ignored).toMatch(/SigIgn:\s+0+$/)
  expect(mask).toBe('0026')
  expect(terminal).toMatch(/^\/dev\/(pts\/\d+|ttys\d+)$/)
})

test('the worker itself lives in / and holds no descriptor of who started it', async () => {
  const worker = await startWorker()
  expect(fs.readlinkSync(`/proc/${worker.process.pid}/cwd`)).toBe('/')
  await until(
    'the ready descriptor is closed',
    () =>
      !fs.existsSync(`/proc/${worker.process.pid}/fd/3`) ||
      !/pipe/.test(fs.readlinkSync(`/proc/${worker.process.pid}/fd/3`)),
  )
})

interface Failing {
  executable?: (root: string) => string
  cwd?: (root: string) => string
  args?: string[]
  code: string
  words: RegExp
}
const script =
  (text: string, mode = 0o755) =>
  (root: string): string => {
    const path = join(root, 'program')
    fs.writeFileSync(path, text, { mode })
    return path
  }
const FAILING: Record<string, Failing> = {
  'a missing program': {
    executable: (root) => join(root, 'nothing'),
    code: 'spawn_failed',
    words: /nothing: does not exist/,
  },
  'a directory': { executable: (root) => root, code: 'spawn_failed', words: /not a regular file/ },
  'a relative path': { executable: () => 'sh', code: 'spawn_failed', words: /absolute/ },
  'a file that is not executable': {
    executable: script('#!/bin/sh\n', 0o644),
    code: 'spawn_failed',
    words: /permission denied/,
  },
  'a script whose interpreter is missing': {
    executable: script('#!/no/such/interpreter -x\n'),
    code: 'spawn_failed',
    words: /\/no\/such\/interpreter: does not exist/,
  },
  'a program for another machine': {
    executable: script('\x7fELF\x02\x01\x01' + '\0'.repeat(9) + '\x02\0\x03\0\x01\0\0\0' + '\0'.repeat(80)),
    code: 'spawn_failed',
    words: /machine/,
  },
  'an argument over the limit': { args: ['x'.repeat(200_000)], code: 'spawn_failed', words: /200000 bytes/ },
  'a NUL in an argument': { args: ['a\0b'], code: 'spawn_failed', words: /NUL/ },
  'a missing directory': { cwd: (root) => join(root, 'gone'), code: 'cwd_failed', words: /gone: does not exist/ },
  'a directory that is a file': {
    cwd: (root) => (fs.writeFileSync(join(root, 'file'), ''), join(root, 'file')),
    code: 'cwd_failed',
    words: /file: not a directory/,
  },
  'a relative directory': { cwd: () => 'somewhere', code: 'cwd_failed', words: /absolute/ },
}
for (const [name, failing] of Object.entries(FAILING)) {
  test(`a start that cannot work is told and leaves nothing: ${name}`, async () => {
    const worker = await startWorker()
    const descriptors = (): number => fs.readdirSync(`/proc/${worker.process.pid}/fd`).length
    const before = descriptors()
    const argv = [failing.executable?.(worker.root) ?? '/bin/true', ...(failing.args ?? [])]
    const failure = await worker.initialize(argv, { cwd: failing.cwd?.(worker.root) ?? worker.root }).then(
      () => undefined,
      (it: unknown) => it as { code: string; message: string },
    )
    expect(failure).toMatchObject({ code: failing.code })
    expect(failure?.message).toMatch(failing.words)
    expect(await worker.inspect()).toMatchObject({ phase: 'uninitialized' })
    await until('descriptors are back', () => descriptors() <= before)
    expect(worker.journal()).toMatchObject({ phase: 'bootstrap' })
    // The same worker can start something that works.
    await worker.initialize(['/bin/cat'], { transaction_id: 't-2' })
    expect(marked(worker.runtimeId)).toEqual([worker.childPid])
  })
}

test('FC-cce3: failed starts leak no descriptor, process or terminal', async () => {
  const worker = await startWorker()
  const descriptors = (): number => fs.readdirSync(`/proc/${worker.process.pid}/fd`).length
  const terminals = (): number => fs.readdirSync('/dev/pts').length
  await worker.initialize(['/nowhere'], { transaction_id: 'first' }).catch(() => {})
  const before = [descriptors(), terminals()]
  for (let round = 0; round < 100; round++) {
    await expect(worker.initialize(['/no/such/binary'], { transaction_id: `x-${round}` })).rejects.toMatchObject({
      code: 'spawn_failed',
    })
  }
  expect(descriptors()).toBeLessThanOrEqual(before[0] ?? 0)
})

test('an initialize for somebody else, out of bounds, or a second time is refused; the same one again is answered again', async () => {
  const worker = await startWorker()
  const send = (overrides: Record<string, unknown>) =>
    worker.control.request({
      type: 'initialize',
      lease_id: worker.leaseId,
      initialize: { ...worker.spec(['/bin/cat']), ...overrides },
    })
  await expect(send({ session_id: 's-other' })).rejects.toMatchObject({ code: 'identity_mismatch' })
  await expect(send({ expected_worker_id: 'w-other' })).rejects.toMatchObject({ code: 'identity_mismatch' })
  await expect(send({ dimensions: { columns: 65_535, rows: 65_535 } })).rejects.toMatchObject({
    code: 'invalid_request',
  })
  await expect(send({ environment: { BIG: 'x'.repeat(40_000) } })).rejects.toMatchObject({ code: 'invalid_request' })
  const [one, two] = await Promise.all([send({}), send({})])
  expect(two['runtime_id']).toBe(one['runtime_id'])
  expect((await send({}))['child_process']).toEqual(one['child_process'])
  worker.runtimeId = one['runtime_id'] as string
  await expect(send({ transaction_id: 't-9' })).rejects.toMatchObject({ code: 'invalid_state' })
})

test('a program that ends before anybody could look still started', async () => {
  const worker = await startWorker()
  await worker.initialize(['/bin/true'])
  expect((await worker.exited())['exit']).toMatchObject({ code: 0 })
  expect(worker.journal()).toMatchObject({ phase: 'terminal' })
})

test('a program that prints the words of a failed exec is not one', async () => {
  const worker = await startWorker()
  await worker.initialize(sh('echo "execvp(3) failed.: No such file"; exit 2'))
  expect((await worker.exited())['exit']).toMatchObject({ code: 2 })
})

test('the command line is checked', async () => {
  const good = [
    '--session-id',
    's-1',
    '--worker-generation',
    '2',
    '--daemon-socket-path',
    '/d',
    '--control-socket-path=/c',
    '--state-root',
    '/s',
    '--service-config',
    '/ignored',
  ]
  expect(parseArguments(good)).toEqual({
    sessionId: 's-1',
    generation: '2',
    daemonSocketPath: '/d',
    controlSocketPath: '/c',
    stateRoot: '/s',
  })
  for (const [change, words] of [
    [['--session-id', '../x'], /directory/],
    [['--worker-generation', '0'], /positive/],
    [['--state-root', 'relative'], /absolute/],
    [['--ready-fd', 'x'], /descriptor/],
    [['--unknown', '1'], /unknown/],
    [['--session-id'], /needs a value/],
  ] as const)
    expect(() => parseArguments([...good, ...change])).toThrow(words)
  expect(() => parseArguments(good.slice(2))).toThrow(/--session-id is missing/)
  await expect(startBareWorker({ argv: ['--nonsense'] })).rejects.toThrow(/ended with 2: .*usage/s)
})

test('a journal that cannot be written refuses the start and leaves nothing', async () => {
  const worker = await startWorker()
  const directory = join(worker.state, 'workers', worker.sessionId)
  // Removed, since a full disk or a directory without rights would not stop root.
  fs.rmSync(directory, { recursive: true })
  const failure = await worker.initialize(['/bin/cat']).catch((it: unknown) => it)
  expect(failure).toMatchObject({ code: 'runtime_fault', message: expect.stringMatching(/journal/) as unknown })
  expect(await worker.inspect()).toMatchObject({ phase: 'uninitialized' })
  fs.mkdirSync(directory, { mode: 0o700 })
  await worker.initialize(['/bin/cat'], { transaction_id: 't-2' })
  // Full at the end: told, and journaled once there is room.
  fs.renameSync(directory, `${directory}.away`)
  const stopped = await worker.stop()
  expect(stopped['exit']).toMatchObject({ stopped_by_user: true })
  fs.renameSync(`${directory}.away`, directory)
  await until('the journal catches up', () => worker.journal()['phase'] === 'terminal')
})
