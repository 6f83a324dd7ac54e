/**
 * Recordings of what real programs wrote to their terminal, and two ways to play one: as a program in a terminal of its
 * own, at recorded or scaled times, and straight into a terminal without any waiting.
 *
 * File: JSON lines. The first is a Header; each further one is an Entry, in order of time.
 */
import { readdirSync, readFileSync, writeFileSync, mkdirSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { manualClock } from '../../kernel/clock.ts'
import { Scope } from '../../kernel/scope.ts'
import type { TerminalSnapshot } from '../../protocol/worker/messages.ts'
import { OutputRing } from '../../worker/ring.ts'
import { ScreenTerminal } from '../../worker/terminal.ts'
import { REPOSITORY } from './roots.ts'

export interface Header {
  format: 1
  agent: string
  agent_version: string
  scene: string
  columns: number
  rows: number
}
/** `at`: milliseconds since the program's start. `data`: bytes of the program, base64. `mark`: what was done or seen. */
export type Entry = { at: number; data: string } | { at: number; mark: string }
export interface Recording {
  header: Header
  entries: Entry[]
}

const FIXTURES = join(REPOSITORY, 'test/fixtures/terminal')
const PLAYER = join(import.meta.dirname, 'play-recording.mjs')
/** Foreground group a replay tells for the recorded program. */
export const REPLAY_GROUP = 4_242

function recordingPath(agent: string, scene: string): string {
  return join(FIXTURES, agent, `${scene}.jsonl`)
}

/** All recordings that are kept, as [agent folder, scene]. */
export function recordings(): [agent: string, scene: string][] {
  return readdirSync(FIXTURES, { withFileTypes: true })
    .filter((it) => it.isDirectory())
    .flatMap(({ name: agent }) =>
      readdirSync(join(FIXTURES, agent))
        .filter((it) => it.endsWith('.jsonl'))
        .map((file): [string, string] => [agent, file.slice(0, -'.jsonl'.length)]),
    )
    .sort()
}

export function readRecording(agent: string, scene: string): Recording {
  const [first = '', ...rest] = readFileSync(recordingPath(agent, scene), 'utf8').trimEnd().split('\n')
  return { header: JSON.parse(first) as Header, entries: rest.map((line) => JSON.parse(line) as Entry) }
}

export function writeRecording(agent: string, { header, entries }: Recording): void {
  const path = recordingPath(agent, header.scene)
  mkdirSync(dirname(path), { recursive: true })
  writeFileSync(path, [header, ...entries].map((it) => `${JSON.stringify(it)}\n`).join(''))
}

/**
 * argv of a program that plays the recording: it switches its terminal to raw, swallows what is typed, writes the bytes
 * `speed` times as fast as they came and then stays until a line `quit` or a signal comes. Size its terminal as the header.
 */
export function playerArgv(agent: string, scene: string, speed = 1): string[] {
  return [process.execPath, PLAYER, recordingPath(agent, scene), String(speed)]
}

export interface Moment {
  at: number
  /** The bytes that came, or the mark. */
  entry: Entry
  picture: TerminalSnapshot
}

/**
 * Plays into a terminal at once; time is the recording's. `see` gets the picture after each entry, and after each quiet
 * `tickMs` within a pause, where nothing but time moves. `startedAt` is what the clock shows at the program's start.
 */
export function replay(
  { header, entries }: Recording,
  see: (moment: Moment) => void,
  { tickMs = Infinity, tailMs = 0 }: { tickMs?: number; tailMs?: number } = {},
): void {
  const clock = manualClock()
  const ring = new OutputRing(8_000_000)
  const terminal = new ScreenTerminal({
    columns: header.columns,
    rows: header.rows,
    ring,
    clock,
    scope: new Scope('replay', clock),
    hooks: {
      asked: () => {},
      answer: () => {},
      foregroundGroup: () => REPLAY_GROUP,
      cwdReported: () => {},
      changed: () => {},
      hold: () => {},
      parseFailed: (failure) => {
        throw failure as Error
      },
    },
  })
  let now = 0
  let last: Entry = { at: 0, mark: 'start' }
  const moveTo = (at: number): void => {
    while (at - now > tickMs) {
      clock.advance(tickMs)
      now += tickMs
      terminal.settleNow()
      see({ at: now, entry: last, picture: terminal.snapshot() })
    }
    clock.advance(Math.max(0, at - now))
    now = Math.max(now, at)
  }
  for (const entry of entries) {
    moveTo(entry.at)
    last = entry
    if ('data' in entry) {
      const bytes = Buffer.from(entry.data, 'base64')
      ring.append(bytes)
      terminal.outputArrived(bytes)
    }
    terminal.settleNow()
    see({ at: now, entry, picture: terminal.snapshot() })
  }
  moveTo(now + tailMs)
}
