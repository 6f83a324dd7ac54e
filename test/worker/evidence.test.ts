/** What the worker keeps for deciding an agent's activity: titles, progress and OSC 7501 reports, each with its time. */
import { expect, test } from 'vitest'
import { manualClock, systemClock } from '../../kernel/clock.ts'
import { Scope } from '../../kernel/scope.ts'
import type { TerminalEvidence } from '../../protocol/worker/messages.ts'
import { parseReport } from '../../worker/evidence.ts'
import { OutputRing } from '../../worker/ring.ts'
import { ScreenTerminal } from '../../worker/terminal.ts'
import { bash, startWorker, until, type TestWorker } from './harness.ts'

const base64 = (text: string): string => Buffer.from(text).toString('base64')
const QUERY = '\x1b]7501;?\x07'
const ANSWER = '\x1b]7501;?\x1b\\'

test('a report is its words, bounded; one that is not well formed is none', () => {
  expect(parseReport('state=idle:app=claude-code')).toEqual({ state: 'idle', app: 'claude-code', id: false })
  expect(parseReport(`state=blocked:app=codex:kind=permission:msg=${base64('approve Bash: touch x=y')}`)).toEqual({
    state: 'blocked',
    app: 'codex',
    kind: 'permission',
    message: 'approve Bash: touch x=y',
    id: false,
  })
  expect(parseReport(`state=working:id=t1:title=${base64('a task')}`)?.id).toBe(true)
  expect(parseReport(`state=working:msg=${base64('a\x1b[31m\r\nb\u009bc')}`)?.message).toBe('a [31m b c')
  expect(parseReport(`state=working:msg=${base64('x'.repeat(2_000))}`)?.message).toHaveLength(512)
  expect(parseReport(`state=working:msg=${base64(`${'x'.repeat(511)}😀`)}`)?.message).toBe('x'.repeat(511))
  for (const bad of [
    '',
    'state',
    'state=',
    'app=codex',
    'state=working:state=idle',
    'state=wor king',
    'state=working:app=\x1b',
    `state=${'w'.repeat(65)}`,
    'state=working:msg=no base64!',
    'state=working::',
    `state=working:msg=${'A'.repeat(9_000)}`,
    `state=working:${Array.from({ length: 17 }, (_, n) => `k${n}=v`).join(':')}`,
  ]) {
    expect(parseReport(bad), JSON.stringify(bad)).toBeUndefined()
  }
})

/** A terminal whose time and foreground group are told. */
function terminal(): {
  clock: ReturnType<typeof manualClock>
  print: (text: string) => TerminalEvidence
  evidence: () => TerminalEvidence
  json: () => string
  front: { group: number; looks: number }
  told: { changes: number; answers: string[] }
} {
  const clock = manualClock()
  const ring = new OutputRing(1_000_000)
  const front = { group: 100, looks: 0 }
  const told = { changes: 0, answers: [] as string[] }
  const it = new ScreenTerminal({
    columns: 20,
    rows: 3,
    ring,
    clock,
    scope: new Scope('test', clock),
    hooks: {
      asked: () => {},
      answer: (text) => void told.answers.push(text),
      foregroundGroup: () => (front.looks++, front.group),
      cwdReported: () => {},
      changed: () => void told.changes++,
      hold: () => {},
      parseFailed: (failure) => {
        throw failure as Error
      },
    },
  })
  const evidence = (): TerminalEvidence => it.snapshot().evidence as TerminalEvidence
  const print = (text: string): TerminalEvidence => {
    const bytes = Buffer.from(text)
    ring.append(bytes)
    it.outputArrived(bytes)
    it.settleNow()
    return evidence()
  }
  return { clock, print, evidence, json: () => it.snapshotJson(), front, told }
}

test('each thing told has the time it was told at', () => {
  const { clock, print, evidence } = terminal()
  expect(evidence()).toEqual({ working_reports: 0 })
  clock.advance(10)
  expect(print('text')).toEqual({ output_at: 10, working_reports: 0 })
  clock.advance(10)
  expect(print('\x1b]0;one\x07')).toMatchObject({ title_at: 20, title_changed_at: 20, output_at: 20 })
  clock.advance(10)
  expect(print('\x1b]2;one\x07')).toMatchObject({ title_at: 30, title_changed_at: 20 })
  clock.advance(10)
  expect(print('\x1b]0;two\x07')).toMatchObject({ title_at: 40, title_changed_at: 40 })
  clock.advance(10)
  expect(print('\x1b]9;4;3\x07')).toMatchObject({ progress_at: 50, title_at: 40 })
  clock.advance(10)
  expect(print('\x1b]9;a notice\x07')).toMatchObject({ progress_at: 50, output_at: 60 })
  clock.advance(10)
  expect(print('\x1b]9;4;0\x07').progress_at).toBe(70)
})

test('progress is kept as it was told, its end too, and bounded', () => {
  const { print, json } = terminal()
  const progress = (text: string): unknown => {
    print(text)
    return (JSON.parse(json()) as { progress?: string }).progress
  }
  expect(progress('text')).toBeUndefined()
  expect(progress('\x1b]9;a notice\x07')).toBeUndefined()
  expect(progress('\x1b]9;4;3\x07')).toBe('4;3')
  expect(progress('\x1b]9;4;1;50\x1b\\')).toBe('4;1;50')
  expect(progress('\x1b]9;another notice\x07')).toBe('4;1;50')
  expect(progress('\x1b]9;4;0\x07')).toBe('4;0')
  expect(progress(`\x1b]9;4;${'1'.repeat(5_000)}\x07`)).toBe(`4;${'1'.repeat(32)}`)
  expect(progress('\x1bc')).toBeUndefined()
})

test('the newest report of the program itself counts, its parts’ do not, clear drops it', () => {
  const { clock, print, front } = terminal()
  clock.advance(5)
  expect(print('\x1b]7501;state=working:app=codex\x1b\\').report).toEqual({
    state: 'working',
    app: 'codex',
    at: 5,
    group: 100,
  })
  clock.advance(5)
  front.group = 200
  const blocked = { state: 'blocked', app: 'codex', kind: 'permission', message: 'approve', at: 10, group: 200 }
  print(`\x1b]7501;state=blocked:app=codex:kind=permission:msg=${base64('approve')}\x07`)
  clock.advance(5)
  print('\x1b]7501;state=working:app=codex:id=t1\x07\x1b]7501;state=clear:id=t1\x07\x1b]7501;state=\x07')
  print('\x1b]7501;state=idle:app\x07')
  expect(print('\x1b]2;title\x07').report).toEqual(blocked)
  expect(print('\x1b]7501;state=clear\x07').report).toBeUndefined()
  expect(print('x').working_reports).toBe(1)
  print('\x1b]7501;state=working\x07\x1b]7501;state=done\x07'.repeat(3))
  expect(print('x')).toMatchObject({ working_reports: 4, report: { state: 'done', at: 15 } })
})

test('a flood of reports costs one look at who is in front, and keeps one report', () => {
  const { print, front } = terminal()
  expect(print('\x1b]7501;state=working:app=codex\x07'.repeat(2_000)).working_reports).toBe(2_000)
  // The last look belongs to the last slice of at most 64 KB.
  expect(front.looks).toBeLessThanOrEqual(2)
})

test('a title set again under an equal screen shows in the cached answer, and is told as a change', () => {
  const { clock, print, json, told } = terminal()
  print('text\x1b]0;same\x07')
  const first = json()
  expect(json()).toBe(first)
  const changes = told.changes
  clock.advance(1_000)
  print('\x1b]0;same\x07')
  expect(JSON.parse(json())).toMatchObject({ title: 'same', evidence: { title_at: 1_000, title_changed_at: 0 } })
  expect(told.changes).toBe(changes + 1)
  clock.advance(1_000)
  expect(json()).toBe(json())
  expect(JSON.parse(json())).toMatchObject({ evidence: { title_at: 1_000, output_at: 1_000 } })
  print('\x1b]7501;state=working\x07')
  expect(told.changes).toBe(changes + 2)
  expect(JSON.parse(json())).toMatchObject({ evidence: { report: { state: 'working', at: 2_000 } } })
})

test('the question whether reports are understood is answered once, whole or in pieces', () => {
  const { print, told } = terminal()
  print(QUERY)
  expect(told.answers).toEqual([ANSWER])
  print('\x1b]7501')
  print(';?')
  expect(told.answers).toEqual([ANSWER])
  print('\x1b\\')
  expect(told.answers).toEqual([ANSWER, ANSWER])
})

/** A program in raw mode that asks whether it is told so with `q`, and prints what it reads as hex. */
const ASKER = `
import os,termios,tty,select,time
tty.setraw(0)
os.write(1,b'READY\\r\\n')
while True:
  word=os.read(0,1)
  if word==b'q': os.write(1,b'\\033]7501;?\\007\\033[c')
  end=time.time()+0.4; got=b''
  while time.time()<end:
    if select.select([0],[],[],0.02)[0]: got+=os.read(0,4096)
  os.write(1,b'GOT['+got.hex().encode()+b']\\r\\n')
`

async function asker(): Promise<TestWorker> {
  const worker = await startWorker()
  await worker.initialize(['/usr/bin/env', 'python3', '-c', ASKER])
  await worker.shows('READY')
  return worker
}

let words = 0
async function heard(worker: TestWorker, word: string, act: () => void = () => {}): Promise<string> {
  const from = (await worker.inspect()).next_offset
  await worker.type(word, { writeId: `word-${++words}` })
  act()
  return until('what the program heard', async () => {
    const match = /GOT\[([0-9a-f]*)\]/.exec((await worker.read(from)).bytes.toString('latin1'))
    return match === null ? undefined : { hex: match[1] ?? '' }
  }).then(({ hex }) => Buffer.from(hex, 'hex').toString('latin1'))
}

test('detached, the answer comes before the one about device attributes', async () => {
  expect(await heard(await asker(), 'q')).toBe(`${ANSWER}\x1b[?62;22c`)
})

test('attached, the worker answers itself and once; the terminal’s own answer is swallowed', async () => {
  const worker = await asker()
  for (const knows of [true, false]) {
    const client = await worker.attach(80, 24, {
      answers: (bytes) => (!bytes.includes('\x1b[c') || bytes[0] === 0x18 ? '' : `${knows ? ANSWER : ''}\x1b[?61;1c`),
    })
    await client.sees('\x1b[?2026l')
    expect(await heard(worker, 'q')).toBe(`${ANSWER}\x1b[?61;1c`)
    // The live output is not touched.
    expect(client.text).toContain(QUERY)
    // A late double, in either form, is nobody's typing; the keys around it are.
    expect(await heard(worker, 'l', () => client.type(`a${ANSWER}b\x1b]7501;?\x07c`))).toBe('abc')
  }
})

test('no picture has the question or a report in it', async () => {
  const worker = await asker()
  await heard(worker, 'q')
  const client = await worker.attach(80, 24)
  await client.sees('GOT[')
  await client.sees('\x1b[?2026l')
  expect(client.text).not.toContain('7501')
  const framed = await worker.frames('attach')
  await until('the picture', () => framed.frames.find((it) => it.header.kind === 'terminal_snapshot'))
  expect(Buffer.concat(framed.frames.map((it) => it.payload)).toString('latin1')).not.toContain('7501')
})

test('evidence of a real program: machine-wide times, its foreground group, and news of it without a visible change', async () => {
  const worker = await startWorker()
  const before = systemClock.monotonic()
  await worker.initialize(
    bash(
      `set -m; echo shown; read -r _; (printf '\\033]7501;state=working:app=codex:msg=%s\\033\\\\' ${base64('thinking')}; read -r _); sleep 60`,
    ),
  )
  const shown = await worker.shows('shown')
  expect(shown.evidence?.report).toBeUndefined()
  const events = worker.control.events.length
  await worker.type('\r')
  const { evidence, ...screen } = await worker.screen('a report', (it) => it.evidence?.report !== undefined)
  const report = evidence?.report
  expect(report).toMatchObject({ state: 'working', app: 'codex', message: 'thinking' })
  expect(report?.group).toBeGreaterThan(0)
  expect(report?.group).not.toBe(worker.childPid)
  expect(report?.at).toBeGreaterThan(before)
  expect(report?.at).toBeLessThanOrEqual(systemClock.monotonic())
  expect(evidence?.output_at).toBeGreaterThanOrEqual(report?.at ?? Infinity)
  await until('the change is told', () =>
    worker.control.events
      .slice(events)
      .find((it) => it.type === 'terminal_changed' && (it['watermark'] as number) >= screen.watermark),
  )
})
