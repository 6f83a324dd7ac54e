/** Attached clients: pictures, sizes, slow ones. */
import { expect, test } from 'vitest'
import { pause } from '../harness/wait.ts'
import { bash, sh, startWorker, until, type RawClient, type TestWorker } from './harness.ts'
import { differences, reference, type Reference } from './grid.ts'

const painted = (client: RawClient): Promise<true> => client.sees('\x1b[?2026l')

/** What the client's terminal shows now. */
function terminalOf(client: RawClient, columns = 80, rows = 24): Reference {
  const terminal = reference(columns, rows)
  terminal.feed(client.bytes)
  return terminal
}

/** What a terminal fed from the first byte shows now. */
async function liveOf(worker: TestWorker, columns = 80, rows = 24): Promise<Reference> {
  const terminal = reference(columns, rows)
  terminal.feed(await worker.everything())
  return terminal
}

test('FC-2c18: sticky modes set long ago come back with the next client', async () => {
  const worker = await startWorker()
  const { limits } = worker.spec([])
  await worker.initialize(
    sh(
      "printf '\\033[?1049h\\033[?25l\\033[?2004h\\033[?1002h\\033[?1006h\\033[?1h\\033=\\033[?1004h'; yes 0123456789 | head -c 700000; printf DONE; exec sleep 60",
    ),
    { limits: { ...limits, output_history_bytes: 65_536 } },
  )
  await worker.shows('DONE')
  const client = await worker.attach(80, 24)
  await painted(client)
  const { text } = client
  const content = text.indexOf('0123456789')
  for (const mode of [
    '\x1b[?2004h',
    '\x1b[?1002h',
    '\x1b[?1006h',
    '\x1b[?1h',
    '\x1b=',
    '\x1b[?1004h',
    '\x1b[?25l',
    '\x1b[?1049h',
  ]) {
    expect(text.indexOf(mode), mode).toBeGreaterThan(-1)
    expect(text.indexOf(mode), mode).toBeLessThan(content)
  }
})

test('FC-b9dc: the normal screen and its scrollback are there when the program leaves the alternate one', async () => {
  const worker = await startWorker()
  await worker.initialize(
    bash(
      "for i in $(seq 1 60); do echo row $i; done; echo MAIN; printf '\\033[?1049h\\033[HALT'; read -s; printf '\\033[?1049l'; exec sleep 60",
    ),
  )
  const screen = await worker.shows('ALT')
  expect(screen.alternate_screen).toBe(true)
  const client = await worker.attach(80, 24)
  await painted(client)
  await worker.type('\r')
  const back = await worker.screen('the normal screen', (it) => !it.alternate_screen)
  expect(back.visible_lines).toContain('MAIN')
  await client.sees('\x1b[?1049l')
  await until(
    'both terminals are the same',
    async () => differences(terminalOf(client), await liveOf(worker)).length === 0,
  )
  expect(client.text).toContain('row 3\r\nrow 4\r\n')
})

test('FC-c048: a second attach at the same size shows what changed meanwhile, without a redraw', async () => {
  const worker = await startWorker()
  await worker.initialize(
    bash("trap 'echo WINCH' WINCH; printf 'before'; read -s; printf '\\033[2J\\033[Hafter'; while :; do read -s; done"),
  )
  const first = await worker.attach(80, 24)
  await first.sees('before')
  await first.detach()
  await worker.type('\r')
  await worker.shows('after')
  const second = await worker.attach(80, 24)
  await second.sees('after')
  await painted(second)
  expect(differences(terminalOf(second), await liveOf(worker))).toEqual([])
  expect((await worker.everything()).toString()).not.toContain('WINCH')
})

test('FC-c048: an editor’s picture is the live one', async () => {
  const worker = await startWorker()
  await worker.initialize(bash("printf 'alpha\\nbeta\\n' > f; exec vim -u NONE -N f"), {
    environment: { TERM: 'xterm-256color' },
  })
  await worker.shows('beta')
  const first = await worker.attach(80, 24)
  await painted(first)
  await first.detach()
  await worker.type('ochanged while away\x1b')
  await worker.shows('changed while away')
  const second = await worker.attach(80, 24)
  await second.sees('changed while away')
  await painted(second)
  expect(differences(terminalOf(second), await liveOf(worker), 0)).toEqual([])
})

test('live output follows the picture without gap or overlap, under a flood', async () => {
  const worker = await startWorker()
  await worker.initialize(
    bash('i=0; while [ $i -lt 60000 ]; do echo "n$i"; i=$((i+1)); done; echo LAST; exec sleep 60'),
  )
  await until('some output', async () => (await worker.inspect()).next_offset > 20_000)
  const client = await worker.attach(80, 24)
  await client.sees('LAST')
  const seen = [...client.text.matchAll(/n(\d+)\s/g)].map((it) => Number(it[1]))
  const start = seen[0] ?? 0
  expect(seen).toEqual(Array.from({ length: 60_000 - start }, (_, n) => start + n))
})

test('history_rows bounds the painted scrollback', async () => {
  const worker = await startWorker()
  await worker.initialize(bash('for i in $(seq 1 200); do echo "row $i."; done; exec sleep 60'))
  await worker.shows('row 200.')
  const none = await worker.attach(80, 24, { history_rows: 0 })
  await painted(none)
  expect(none.text).not.toContain('row 100.')
  const some = await worker.attach(80, 24, { history_rows: 100 })
  await painted(some)
  expect(some.text).toContain('row 100.')
  expect(some.text).not.toContain('row 50.')
})

const winsize = (worker: TestWorker, columns: number, rows: number): Promise<unknown> =>
  worker.screen(
    `the program sees ${rows} ${columns}`,
    (it) => it.visible_lines.findLast((line) => line !== '') === `${rows} ${columns}`,
  )

const REPORT_SIZE = bash("trap 'stty size' WINCH; stty size; while :; do sleep 0.02; done")

test('FC-3a80: the newest client’s size counts, and the one before it when it leaves', async () => {
  const worker = await startWorker()
  await worker.initialize(REPORT_SIZE)
  await winsize(worker, 80, 24)
  const big = await worker.attach(160, 40)
  await winsize(worker, 160, 40)
  const small = await worker.attach(65, 35)
  await winsize(worker, 65, 35)
  // The covered client's terminal changes: known, but not in force.
  expect(await worker.resize(150, 39, { stream_id: big.streamId })).toEqual({ columns: 65, rows: 35 })
  await small.detach()
  await winsize(worker, 150, 39)
  expect(worker.control.events.filter((it) => it.type === 'resized_by_client').map((it) => it['dimensions'])).toEqual([
    { columns: 160, rows: 40 },
    { columns: 65, rows: 35 },
    { columns: 150, rows: 39 },
  ])
  const follower = await worker.frames('detector')
  await until('the follower is fed', () => follower.output.length > 0)
  expect((await worker.inspect()).dimensions).toEqual({ columns: 150, rows: 39 })
})

test('FC-2e51: sizes no terminal can have are refused or raised; the program never sees 0', async () => {
  const worker = await startWorker()
  await worker.initialize(REPORT_SIZE)
  for (const [columns, rows] of [
    [0, 0],
    [-5, 10],
    [1.5, 3],
    [70_000, 10],
  ] as const) {
    await expect(worker.resize(columns, rows)).rejects.toMatchObject({ code: 'invalid_request' })
    await expect(worker.attach(columns, rows)).rejects.toMatchObject({ code: 'invalid_request' })
  }
  await expect(
    worker.control.request({
      type: 'resize',
      scope: worker.scope,
      resize: { source_id: 'x', sequence: 1, dimensions: { columns: '80', rows: 24 } },
    }),
  ).rejects.toMatchObject({ code: 'invalid_request' })
  await expect(worker.resize(65_535, 65_535)).rejects.toMatchObject({ code: 'invalid_request' })
  await expect(worker.attach(65_535, 65_535)).rejects.toMatchObject({ code: 'invalid_request' })
  expect(await worker.resize(1, 1)).toEqual({ columns: 2, rows: 1 })
  expect(await worker.resize(65_535, 10)).toEqual({ columns: 65_535, rows: 10 })
  expect(await worker.resize(90, 30)).toEqual({ columns: 90, rows: 30 })
  await winsize(worker, 90, 30)
  for (const line of (await worker.everything()).toString().trim().split(/\r\n/))
    expect(line).not.toMatch(/(^0 )|( 0$)/)
})

test('FC-cc13: the first size is there before the program runs; a burst of sizes ends with the last one', async () => {
  const worker = await startWorker()
  // A shell may lose a signal that arrives while its trap runs; a program that waits for signals loses none.
  const watcher = `import os, signal
signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGWINCH})
def show(mark):
    size = os.get_terminal_size()
    os.write(1, (mark + '%d %d\\n' % (size.lines, size.columns)).encode())
show('')
while True:
    signal.sigwait({signal.SIGWINCH})
    show('W\\n')`
  await worker.initialize(['/usr/bin/env', 'python3', '-c', watcher], { dimensions: { columns: 220, rows: 50 } })
  await worker.shows('50 220')
  const sizes = Array.from({ length: 40 }, (_, n) => worker.resize(100 + n, 40))
  await Promise.all(sizes)
  await worker.screen('the last size', (it) => it.visible_lines.includes('40 139'))
  const winches = (await worker.everything()).toString().match(/W\r\n/g)?.length ?? 0
  expect(winches).toBeLessThan(12)
  const before = winches
  await worker.resize(139, 40)
  await worker.resize(139, 40)
  await worker.type('\r')
  await worker.resize(140, 40)
  await worker.screen('one more', (it) => it.visible_lines.includes('40 140'))
  expect(((await worker.everything()).toString().match(/W\r\n/g)?.length ?? 0) - before).toBeLessThanOrEqual(1)
})

test('a stale resize of one source changes nothing', async () => {
  const worker = await startWorker()
  await worker.initialize(REPORT_SIZE)
  const resize = (sequence: number, columns: number): Promise<unknown> =>
    worker.control.request({
      type: 'resize',
      scope: worker.scope,
      resize: { source_id: 'one', sequence, dimensions: { columns, rows: 24 } },
    })
  await resize(5, 100)
  await winsize(worker, 100, 24)
  expect(await resize(4, 60)).toMatchObject({ sequence: 4, dimensions: { columns: 100, rows: 24 } })
})

test('FC-f968: a client that missed bytes is resynced from any parser state, on the right buffer', async () => {
  const worker = await startWorker()
  const { limits } = worker.spec([])
  await worker.initialize(
    bash(
      "printf '\\033[?1049hALT'; read -s; printf '\\033]2;half a title that never'; head -c 6000000 /dev/zero | tr '\\0' z; printf '\\a\\033[?1049l\\033[2J\\033[Hfinal '; for i in 1 2 3; do echo line $i; done; read -s; printf OVER; exec sleep 60",
    ),
    { limits: { ...limits, subscriber_queue_bytes: 262_144 } },
  )
  await worker.shows('ALT')
  const framed = await worker.frames('attach')
  await framed.frame('terminal_snapshot')
  framed.socket.pause()
  const raw = await worker.attach(80, 24)
  await raw.sees('ALT')
  raw.socket.pause()
  await worker.type('\r')
  await worker.shows('line 3')
  raw.socket.resume()
  framed.socket.resume()
  const gap = await framed.frame('gap')
  expect(gap.header).toMatchObject({ kind: 'gap' })
  await until(
    'the framed client is resynced',
    () => framed.frames.filter((it) => it.header.kind === 'terminal_snapshot').length === 2,
  )
  await raw.sees('line 3')
  await worker.type('\r')
  await raw.sees('OVER')
  expect(raw.received).toBeLessThan(5_000_000)
  expect(raw.bytes.lastIndexOf('\x18\x1b\\')).toBeGreaterThan(10)
  expect(differences(terminalOf(raw), await liveOf(worker), 0)).toEqual([])
})

test('FC-e33b: a client that reads nothing costs bounded memory and delays nobody', async () => {
  const worker = await startWorker()
  await worker.initialize(
    bash(
      'read -s; head -c 160000000 /dev/zero | tr "\\0" "\\n" | tr "\\n" y | fold -w 79; echo FINISHED; exec sleep 60',
    ),
  )
  const dead = await worker.attach(80, 24)
  await painted(dead)
  dead.socket.pause()
  const alive = await worker.attach(80, 24)
  await painted(alive)
  const rss = async (): Promise<number> =>
    Number(
      /^VmRSS:\s+(\d+)/m.exec(
        await (await import('node:fs/promises')).readFile(`/proc/${worker.process.pid}/status`, 'utf8'),
      )?.[1],
    ) / 1024
  const before = await rss()
  await worker.type('\r')
  await alive.sees('FINISHED')
  // Ring 10 MB, code that got hot, buffers; the flood is 160 MB.
  expect((await rss()) - before).toBeLessThan(90)
  expect(alive.received).toBeGreaterThan(1_000_000)
  expect(dead.closed).toBe(false)
})

test('FC-99eb: a program that writes single bytes starves nobody, and its bytes are taken together', async () => {
  const worker = await startWorker()
  await worker.initialize([
    '/usr/bin/env',
    'python3',
    '-c',
    "import os,time\nend=time.time()+3\nwhile time.time()<end:\n for i in range(1000): os.write(1,b'.')\nos.write(1,b'END')\ntime.sleep(60)",
  ])
  const client = await worker.attach(80, 24)
  await painted(client)
  const times: number[] = []
  while (!client.bytes.subarray(-100).toString().includes('END') && times.length < 400) {
    const began = performance.now()
    await worker.inspect()
    times.push(performance.now() - began)
    await pause(10)
  }
  await client.sees('END')
  times.sort((a, b) => a - b)
  expect(times[Math.floor(times.length * 0.95)]).toBeLessThan(100)
  expect(client.received / client.chunks.length).toBeGreaterThan(50)
})

test('a framed client types, is acknowledged, and learns the exit', async () => {
  const worker = await startWorker()
  await worker.initialize(sh('read line; echo "heard $line"; exit 6'))
  const client = await worker.frames('attach')
  const ready = await client.frame('attach_ready')
  expect(ready.header).toMatchObject({
    dimensions: { columns: 80, rows: 24 },
    version: 7,
    runtime_id: worker.runtimeId,
  })
  await client.frame('terminal_snapshot')
  client.send({ kind: 'input', write_id: 'k1' }, Buffer.from('words\r'))
  expect((await client.frame('input_ack')).header).toMatchObject({ write_id: 'k1', bytes_written: 6 })
  expect((await client.frame('exit')).header).toMatchObject({ exit: { code: 6 } })
  expect((await client.frame('close')).header).toMatchObject({ reason: 'runtime_exited' })
  expect(client.output.toString()).toContain('heard words')
  await until('the stream is closed', () => client.closed)
})

test('a stream is closed by request, and its end is told once', async () => {
  const worker = await startWorker()
  await worker.initialize(sh('exec sleep 60'))
  const client = await worker.attach(80, 24)
  await painted(client)
  expect(
    await worker.control.request({ type: 'close_data_stream', scope: worker.scope, stream_id: client.streamId }),
  ).toMatchObject({ closed: true })
  await until('it is closed', () => client.closed)
  expect(
    await worker.control.request({ type: 'close_data_stream', scope: worker.scope, stream_id: client.streamId }),
  ).toMatchObject({ closed: false })
  const ends = worker.control.events.filter((it) => it.type === 'stream_closed')
  expect(ends).toMatchObject([{ stream_id: client.streamId, reason: 'requested' }])
  expect(worker.control.events.filter((it) => it.type === 'stream_opened')).toHaveLength(1)
})

test('an attached client gets the last bytes before its end', async () => {
  const worker = await startWorker()
  await worker.initialize(sh('read x; head -c 400000 /dev/zero | tr "\\0" q; printf THEEND; exit 0'))
  const client = await worker.attach(80, 24)
  await painted(client)
  client.type('\r')
  await until('the client is closed', () => client.closed)
  expect(client.text.endsWith('THEEND')).toBe(true)
})
