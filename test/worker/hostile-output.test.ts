/** Programs and peers that mean harm: a few bytes must not stop a worker, nor many fill it. */
import { spawn } from 'node:child_process'
import * as fs from 'node:fs'
import * as net from 'node:net'
import * as os from 'node:os'
import { join } from 'node:path'
import { expect, onTestFinished, test } from 'vitest'
import { createEmulator } from '../../worker/xterm.ts'
import { bash, ControlClient, sh, startWorker, until, WORKER_PROGRAM } from './harness.ts'

const python = (script: string): string[] => ['/usr/bin/env', 'python3', '-u', '-c', script]
const QUICK_MS = 12_000

test('a huge count in a sequence costs no more than the screen has rows and columns', async () => {
  const worker = await startWorker()
  const finals = [...'@ABCDEFGHILMPSTXZ`adefb', ' @', ' A', "'}", "'~"]
  await worker.initialize(
    python(
      `import os,time\nfor f in ${JSON.stringify(finals)}: os.write(1,('A\\x1b[2147483647'+f).encode())\n` +
        `os.write(1,b'\\x1b[2J\\x1b[HDONE'); time.sleep(60)`,
    ),
  )
  await worker.shows('DONE', QUICK_MS)
})

test('a palette list of many entries is read once, and one over the payload bound not at all', async () => {
  const worker = await startWorker()
  await worker.initialize(
    python(
      `import os,time\nw=lambda b: os.write(1,b) == len(b) or exit(1)\n` +
        `for n in range(60): w(b'\\x1b]4'+b';1;#010203'*5000+b'\\x07')\n` +
        `w(b'\\x1b]4'+b';1;#010203'*400000+b'\\x07')\nw(b'DONE'); time.sleep(60)`,
    ),
  )
  await worker.shows('DONE', QUICK_MS)
})

test('a title over the payload bound is passed over; what comes behind it is read', async () => {
  const worker = await startWorker()
  await worker.initialize(
    python(
      `import os,time\nos.write(1,b'\\x1b]2;before\\x07\\x1b]2;'+b'x'*200000+b'\\x07\\x1bP$q'+b'y'*200000+b'\\x1b\\\\DONE'); time.sleep(60)`,
    ),
  )
  const screen = await worker.shows('DONE')
  expect(screen.title).toBe('before')
  expect(screen.visible_lines[0]).toBe('DONE')
})

test('marks without end on one cell leave one cell of bounded size; emoji stay whole', async () => {
  const worker = await startWorker()
  const family = '👨🏻‍👩🏻‍👧🏻‍👦🏻'
  await worker.initialize(
    python(
      `import os,time\nos.write(1,('${family}e'+'\\u0301'*100000+'\\u200d\\u0301'*1000+'DONE').encode()); time.sleep(60)`,
    ),
  )
  const line = (await worker.shows('DONE')).visible_lines[0] ?? ''
  expect(line.startsWith(family)).toBe(true)
  expect(line.length).toBeLessThan(family.length + 80)
})

test('links are not kept', () => {
  const emulator = createEmulator(80, 24, 100)
  onTestFinished(() => emulator.dispose())
  const { _oscLinkService: links } = emulator.core as unknown as {
    _oscLinkService: { _dataByLinkId: Map<number, unknown> }
  }
  expect(links._dataByLinkId.size).toBe(0)
  emulator.core._inputHandler.parse(Buffer.from('\x1b]8;;http://one/\x07x\x1b]8;;\x07\x1b]8;id=2;http://two/\x07y'))
  expect(links._dataByLinkId.size).toBe(0)
})

test('replies that the program does not read are bounded', async () => {
  const worker = await startWorker()
  const count = 50_000
  await worker.initialize(
    python(
      `import os,tty,select,time\ntty.setraw(0)\nfor n in range(${count / 1000}): os.write(1,b'\\x1b[c'*1000)\n` +
        `time.sleep(1); n=0\nwhile select.select([0],[],[],1)[0]: n+=len(os.read(0,65536))\n` +
        `os.write(1,b'\\r\\nGOT %d.' % n)\ntime.sleep(60)`,
    ),
  )
  const screen = await worker.screen('the count', (it) => it.visible_lines.some((line) => line.startsWith('GOT')))
  const got = Number(/GOT (\d+)\./.exec(screen.visible_lines.join('\n'))?.[1])
  expect(got % '\x1b[?62;22c'.length).toBe(0)
  expect(got).toBeGreaterThan(4_000)
  expect(got).toBeLessThan(140_000)
})

test('directories reported in a flood are told with rests, the last one for sure', async () => {
  const worker = await startWorker()
  await worker.initialize(
    python(
      `import os,time\nfor n in range(20000): os.write(1,b'\\x1b]7;file://h/d%d\\x07' % n)\nos.write(1,b'DONE'); time.sleep(60)`,
    ),
  )
  const told = () => worker.control.events.filter((it) => it.type === 'cwd_reported').map((it) => it['cwd'])
  await worker.shows('DONE')
  await until('the last directory', () => told().at(-1) === '/d19999')
  expect(told().length).toBeLessThan(50)
})

test('a screen too large for one line is refused, and the connection stays', async () => {
  const worker = await startWorker()
  await worker.initialize(
    python(`import os,time\nfor n in range(700): os.write(1,b'z'*2000)\nos.write(1,b'DONE'); time.sleep(60)`),
    { dimensions: { columns: 2_000, rows: 800 } },
  )
  await until('all output is there', async () => (await worker.inspect()).next_offset >= 1_400_004)
  await expect(worker.snapshot()).rejects.toMatchObject({ code: 'observation_limit_exceeded' })
  await worker.resize(80, 24)
  await worker.shows('DONE')
})

test('more queries than a client may owe are answered all the same', async () => {
  const worker = await startWorker()
  await worker.initialize(
    python(
      `import os,tty,select,time\ntty.setraw(0)\nos.write(1,b'READY')\nos.read(0,1)\nos.write(1,b'\\x1b[c'*200)\nb=b''\n` +
        `while b.count(b'c')<200 and select.select([0],[],[],3)[0]: b+=os.read(0,65536)\n` +
        `os.write(1,b'\\r\\nGOT %d.' % b.count(b'c'))\ntime.sleep(60)`,
    ),
  )
  const client = await worker.attach(80, 24)
  await client.sees('READY')
  client.type('g')
  await worker.shows('GOT 200.')
})

test('a write behind typing that nobody reads fails after the stall bound', async () => {
  const worker = await startWorker()
  await worker.initialize(sh('stty raw -echo; printf READY; exec sleep 60'), { input_stall_ms: 300 })
  const client = await worker.attach(80, 24)
  await client.sees('READY')
  client.type('t'.repeat(30_000))
  // The queue of the terminal is full once a write of its own stalls.
  await expect(worker.type('x'.repeat(50_000))).rejects.toMatchObject({ code: 'input_stalled' })
  const began = performance.now()
  await expect(worker.type('y')).rejects.toMatchObject({ code: 'input_stalled' })
  expect(performance.now() - began).toBeGreaterThan(250)
})

test('connections and unfinished lines are bounded; the controller goes on', async () => {
  const worker = await startWorker()
  await worker.initialize(sh('printf DONE; exec sleep 60'))
  let closed = 0
  const sockets = Array.from({ length: 200 }, () => {
    const socket = net.connect(worker.socketPath)
    socket.on('error', () => {})
    socket.on('close', () => closed++)
    socket.resume()
    socket.write(Buffer.alloc(60_000, 0x20))
    return socket
  })
  onTestFinished(() => sockets.forEach((it) => it.destroy()))
  // 128 at most, the controller among them, and of those only what fits 4 MiB stays.
  await until('those over the bounds are closed', () => closed >= 200 - Math.floor(4_194_304 / 60_000) - 1)
  await worker.shows('DONE')
  // What says nothing at all goes too, and makes room.
  await until('silent ones are closed', () => closed === 200, 15_000)
  const late = await ControlClient.connect(worker.socketPath)
  onTestFinished(() => late.close())
  expect(
    await late.request({ type: 'negotiate', daemon_instance_id: 'd', minimum_version: 6, maximum_version: 7 }),
  ).toMatchObject({ type: 'negotiated' })
}, 30_000)

test('a stop ends a descendant that left the terminal and scrubbed its environment', async () => {
  const worker = await startWorker()
  const script = `setsid env -i /bin/sh -c 'echo $$ >"${worker.root}/pid"; exec sleep 300' & printf READY; wait`
  await worker.initialize(bash(script))
  const pid = await until('the descendant runs', () => {
    const file = join(worker.root, 'pid')
    return fs.existsSync(file) && Number(fs.readFileSync(file, 'utf8'))
  })
  onTestFinished(() => {
    try {
      process.kill(pid, 'SIGKILL')
    } catch {
      // ended, as it should be
    }
  })
  expect(await worker.stop()).toMatchObject({ type: 'stopped' })
  expect(fs.existsSync(`/proc/${pid}`) && !/^State:\s+Z/m.test(fs.readFileSync(`/proc/${pid}/status`, 'utf8'))).toBe(
    false,
  )
})

test('a worker that cannot start says why in its log', async () => {
  const root = fs.mkdtempSync(join(os.tmpdir(), 'pohunek-worker-'))
  onTestFinished(() => fs.rmSync(root, { recursive: true, force: true }))
  const sessionId = 's-01ARZ3NDEKTSV4RRFFQ69G5FAV'
  fs.writeFileSync(join(root, 'run'), 'no directory')
  const options = {
    '--session-id': sessionId,
    '--worker-generation': '1',
    '--daemon-socket-path': join(root, 'daemon.sock'),
    '--control-socket-path': join(root, 'run', 'control.sock'),
    '--state-root': join(root, 'state'),
  }
  const child = spawn(process.execPath, [WORKER_PROGRAM, ...Object.entries(options).flat()], { stdio: 'ignore' })
  onTestFinished(() => void child.kill('SIGKILL'))
  expect(await new Promise((resolve) => child.on('exit', resolve))).toBe(1)
  const log = fs.readFileSync(join(root, 'state', 'logs', `pohunek-session-${sessionId}.jsonl`), 'utf8')
  expect(log).toContain('the worker could not start')
  expect(log).toMatch(/ENOTDIR|EEXIST/)
})
