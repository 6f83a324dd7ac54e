/**
 * What real agents wrote to their terminals (test/fixtures/terminal), through the worker's terminal, the manifests of
 * this build and the decisions, in the recordings' own time. Marks say what was done, and when a person would have seen
 * what; they were set without any manifest.
 */
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, test } from 'vitest'
import { decide, NO_MEMORY, type Memory } from '../../plugins/detection/decide.ts'
import { parseManifest } from '../../plugins/detection/manifest.ts'
import { readPicture } from '../../plugins/detection/readings.ts'
import type { AgentActivity } from '../../plugins/sessions/types.ts'
import type { TerminalSnapshot } from '../../protocol/worker/messages.ts'
import { readRecording, recordings, replay, REPLAY_GROUP, type Recording } from '../harness/recording.ts'
import { REPOSITORY } from '../harness/roots.ts'

/** The tracker's: looks are at least this far apart. */
const LOOK_REST_MS = 80
const TICK_MS = 10
/** A state is published within this of the screen that shows it. */
const SETTLED_MS = 1_000
/** A mark of the other side of a socket may be this late. */
const MARK_MS = 100
const PIECES_MS = 400
const APPS: Record<string, string> = { claude: 'claude-code', codex: 'codex' }

interface Told {
  at: number
  activity: AgentActivity | undefined
  failed: boolean
}

/** Everything that was published, looking as the tracker does. */
function watch(recording: Recording): {
  told: Told[]
  marks: { at: number; mark: string }[]
  unsafe: { at: number; rows: string[] }[]
  drafts: (string | undefined)[]
} {
  const { agent } = recording.header
  const file = join(REPOSITORY, 'runtime-packages', agent, 'detect.toml')
  const manifest = parseManifest(readFileSync(file, 'utf8'), file)
  const told: Told[] = []
  let memory: Memory = NO_MEMORY
  let lookedAt = -Infinity
  let dueAt = 0
  let seen = -1
  let boxAt = 0
  const unsafe: { at: number; rows: string[] }[] = []
  const drafts: (string | undefined)[] = []
  const look = (now: number, picture: TerminalSnapshot): void => {
    lookedAt = now
    const { draft } = readPicture(manifest, picture)
    if (!picture.partial && draft !== drafts.at(-1)) drafts.push(draft)
    const {
      memory: next,
      publish,
      againMs,
    } = decide(memory, {
      now,
      watermark: picture.watermark,
      partial: picture.partial,
      told: `${picture.title ?? ''}\0${picture.progress ?? ''}`,
      readings: readPicture(manifest, picture),
      identity: 'agent',
      group: REPLAY_GROUP,
      evidence: picture.evidence,
      reportApp: APPS[agent],
    })
    memory = next
    const { screen, composer, asked } = readPicture(manifest, picture)
    // Claude 2.1.197 draws in pieces on a small screen: its box may be missing for a moment.
    const boxless = (screen?.state === 'idle' || screen?.state === 'working') && composer !== true
    boxAt = boxless ? boxAt : now
    if (now - boxAt > PIECES_MS || (screen?.state === 'blocked' && (asked === undefined || composer === true)))
      unsafe.push({ at: now, rows: picture.visible_lines })
    for (const it of publish) told.push({ at: now, activity: it.activity, failed: it.failedAt !== undefined })
    dueAt = againMs === undefined ? Infinity : Math.max(now + againMs, now + LOOK_REST_MS)
  }
  replay(
    recording,
    ({ at, picture }) => {
      if (picture.watermark !== seen) dueAt = Math.min(dueAt, Math.max(at, lookedAt + LOOK_REST_MS))
      seen = picture.watermark
      if (at >= dueAt) look(at, picture)
    },
    { tickMs: TICK_MS, tailMs: 3_000 },
  )
  const marks = recording.entries.flatMap((it) => ('mark' in it ? [it] : []))
  return { told, marks, unsafe, drafts }
}
/** What is told from the first prompt on; a quick answer behind a question is not told as work. */
const STORIES: Record<string, string> = {
  start: '',
  answer: 'working idle',
  working: 'working idle',
  tool: 'working idle',
  long: 'working idle',
  retry: 'working idle',
  error: 'working idle',
  interrupt: 'working idle',
  second: 'working idle',
  approval: 'working blocked idle',
  refuse: 'working blocked idle',
  small: 'working blocked idle',
  question: 'working blocked idle',
  // What ran in the background ends, and a turn about it begins by itself.
  background: 'working idle working idle',
  draft: '',
  trust: 'blocked',
  'first-run': 'blocked',
  suggestion: 'blocked',
  exit: 'unknown',
  'ctrl-c': 'unknown',
}
/** Where a version does not show what others show. */
const OTHERWISE: Record<string, string> = {
  'claude-2.1.197/approval': 'working blocked working idle',
  // These two draw nothing of a turn before its end, or before their question.
  'claude-2.1.197/error': '',
  'claude-2.1.197/small': 'blocked working idle',
  'claude-2.1.197/question': 'blocked idle',
  'claude-2.1.197/refuse': 'blocked idle',
  // These leave their prompt on the screen.
  'claude-2.1.197/exit': '',
  'claude-2.1.197/ctrl-c': '',
  'pi/exit': '',
  'pi/ctrl-c': '',
}

/** The agent does not get to its prompt. */
const BEFORE_PROMPT = new Set(['trust', 'first-run', 'suggestion'])

const stateAt = (told: Told[], at: number): AgentActivity | undefined => told.findLast((it) => it.at <= at)?.activity

describe.each(recordings())('%s: %s', (agent, scene) => {
  const { told, marks, unsafe, drafts } = watch(readRecording(agent, scene))
  const at = (mark: string): number => marks.find((it) => it.mark.startsWith(mark))?.at ?? Infinity
  const begun = Math.min(at('prompt'), at('key'), BEFORE_PROMPT.has(scene) ? 0 : Infinity)

  test('the input box is on the screen of an agent that rests or works, and on none of a question', () => {
    expect(unsafe).toEqual([])
  })

  test('a text stands in the input box while one was typed there, and no hint is taken for one', () => {
    const prompts = marks.filter((it) => it.mark.startsWith('prompt ')).map(({ mark }) => mark.slice('prompt '.length))
    const typed = scene === 'draft' ? ['say never sent'] : prompts
    const found = drafts.filter((it) => it !== undefined && !/^Shutting down/.test(it))
    // A prompt that is taken at once may never be seen in the box.
    expect(typed.filter((it) => found.includes(it))).toEqual([...new Set(found)])
    expect(found.length).toBeGreaterThanOrEqual(Math.min(1, typed.length))
    if (scene === 'draft') expect(drafts.at(-1)).toBe('say never sent')
    else if (scene !== 'exit' && scene !== 'ctrl-c') expect(drafts.at(-1)).toBeUndefined()
  })

  test('the states are told in order, each once', () => {
    const story = told.filter((it) => it.at >= begun).map((it) => it.activity ?? 'unknown')
    expect(story.join(' ')).toBe(OTHERWISE[`${agent}/${scene}`] ?? STORIES[scene])
  })

  test('a turn failed where the agent reports so, and only there', () => {
    // Claude 2.1.197 and Pi report nothing, and what they print may as well be an answer.
    const reports = scene === 'error' && (agent === 'claude' || agent === 'codex')
    expect(told.filter((it) => it.failed).map((it) => it.activity)).toEqual(reports ? ['idle'] : [])
  })

  test('at the prompt it is idle, and not before it shows', () => {
    const idle = told.find((it) => it.activity === 'idle')
    if (BEFORE_PROMPT.has(scene)) return expect(idle).toBeUndefined()
    expect(idle?.at).toBeGreaterThan(at('ready') - SETTLED_MS)
    // Codex starts on for a while behind its prompt, and may be sent one meanwhile.
    if (idle !== undefined && idle.at < begun) expect(idle.at).toBeLessThan(at('ready') + 2 * SETTLED_MS)
    expect(told.slice(0, told.indexOf(idle as Told)).map((it) => it.activity)).not.toContain('blocked')
  })

  test('a question is blocked within a second and for as long as it shows', () => {
    const from = at('shows dialog') + SETTLED_MS
    const until = at('key')
    if (from === Infinity) return
    expect(stateAt(told, from)).toBe('blocked')
    expect(told.filter((it) => it.at > from && it.at < until)).toEqual([])
  })

  test('no idle while the model answers, and idle within a second of the screen that shows it', () => {
    const requests = marks.filter((it) => it.mark === 'request')
    const ends = marks.filter((it) => it.mark === 'response ended')
    for (const [n, request] of requests.entries()) {
      const end = ends[n]?.at ?? Infinity
      const wrong = told.filter((it) => it.activity === 'idle' && it.at > request.at + MARK_MS && it.at < end - MARK_MS)
      expect(wrong).toEqual([])
    }
    const shown = marks.findLast((it) => it.mark === 'shows idle')
    if (shown !== undefined) expect(stateAt(told, shown.at + SETTLED_MS)).toBe('idle')
  })
})
