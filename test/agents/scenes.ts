/** Scenes of which recordings are kept: each is a run of its own, from the program's start on. */
import type { TerminalSnapshot } from '../../protocol/worker/messages.ts'
import { PINNED, type AgentKey, type AgentName, type HomeOptions } from './agents.ts'
import type { Recorder, Size } from './recorder.ts'

/** What a person would say the screen shows; told without any manifest, so that a manifest can be judged by it. */
interface Look {
  ready: RegExp
  working: (it: TerminalSnapshot) => boolean
  dialog: RegExp
  /** Keys. */
  accept: string
  quit: string
}
const text = (it: TerminalSnapshot): string => it.visible_lines.join('\n')
const SPINNING = /^[\u2800-\u28ff]/

export const LOOKS: Record<AgentName, Look> = {
  claude: {
    ready: /\? for shortcuts/,
    working: (it) => /esc to interrupt/.test(text(it)),
    dialog: /Do you want to|Enter to select/,
    accept: '1',
    quit: '/exit',
  },
  codex: {
    ready: /Ask Codex to do anything/,
    working: (it) => SPINNING.test(it.title ?? ''),
    dialog: /Would you like to run/,
    accept: 'y',
    quit: '/quit',
  },
  pi: {
    ready: /test-model/,
    working: (it) => /Working\.\.\.|Retrying/.test(text(it)),
    dialog: /(?!)/,
    accept: '',
    quit: '/quit',
  },
}

interface Scene {
  agents?: readonly AgentName[]
  without?: readonly AgentKey[]
  unasked?: readonly AgentName[]
  /** How its home differs from one that starts into the prompt. */
  home?: Pick<HomeOptions, 'untrusted' | 'firstRun' | 'suggestion'>
  size?: Size
  play(it: Recorder, look: Look): Promise<void>
}

const ESCAPE = '\x1b'
const CTRL_C = '\x03'
const DIALOGS = ['claude', 'codex'] as const

async function ready(it: Recorder, look: Look): Promise<void> {
  await it.sees('ready', look.ready)
  // Pi takes a prompt only a while after it shows where to type.
  await it.rest(1_500)
}
const working = (it: Recorder, look: Look): Promise<void> => it.shows('shows working', look.working)
async function idle(it: Recorder, look: Look, restMs = 3_000): Promise<void> {
  await it.shows(
    'shows idle',
    (screen) =>
      it.models.turns.every((turn) => turn.endedAt !== undefined) &&
      look.ready.test(text(screen)) &&
      !look.working(screen) &&
      !look.dialog.test(text(screen)),
    60_000,
  )
  await it.rest(restMs)
}
async function turn(it: Recorder, look: Look, prompt: string): Promise<void> {
  await ready(it, look)
  await it.prompt(prompt)
  await it.shows('request seen', () => it.models.turns.length > 0)
}

export const SCENES: Record<string, Scene> = {
  start: {
    async play(it, look) {
      await ready(it, look)
      await it.rest(5_000)
    },
  },
  answer: {
    async play(it, look) {
      await turn(it, look, 'say hello there')
      await idle(it, look)
    },
  },
  working: {
    async play(it, look) {
      await turn(it, look, 'slow 8')
      await working(it, look)
      await idle(it, look)
    },
  },
  tool: {
    unasked: ['codex'],
    async play(it, look) {
      await turn(it, look, 'bash sleep 5')
      await working(it, look)
      await idle(it, look)
    },
  },
  long: {
    async play(it, look) {
      await turn(it, look, 'long 400')
      await idle(it, look)
    },
  },
  approval: {
    agents: DIALOGS,
    async play(it, look) {
      await turn(it, look, 'bash touch made.txt')
      await it.sees('shows dialog', look.dialog)
      await it.rest(7_000)
      await it.press(look.accept, 'accept')
      await idle(it, look)
    },
  },
  // The question does not fit with all that belongs to it.
  small: {
    agents: DIALOGS,
    size: { columns: 60, rows: 14 },
    async play(it, look) {
      await it.sees('ready', /[❯›]/)
      await it.rest(2_500)
      await it.prompt('bash touch made.txt')
      await it.sees('shows dialog', /1\. Yes/)
      await it.rest(4_000)
      await it.press(look.accept, 'accept')
      await it.shows('done', (screen) => /done/.test(text(screen)))
      await it.rest(3_000)
    },
  },
  refuse: {
    agents: DIALOGS,
    async play(it, look) {
      await turn(it, look, 'bash touch made.txt')
      await it.sees('shows dialog', look.dialog)
      await it.rest(2_000)
      await it.press(ESCAPE, 'Escape')
      await idle(it, look)
    },
  },
  question: {
    agents: ['claude'],
    async play(it, look) {
      await turn(it, look, 'ask Which colour?')
      await it.sees('shows dialog', look.dialog)
      await it.rest(2_000)
      await it.press('\r', 'Enter')
      await idle(it, look)
    },
  },
  interrupt: {
    async play(it, look) {
      await turn(it, look, 'slow 30')
      await working(it, look)
      await it.rest(3_000)
      await it.press(ESCAPE, 'Escape')
      await idle(it, look, 4_000)
    },
  },
  retry: {
    async play(it, look) {
      await turn(it, look, 'fail 500 2')
      await it.shows('retried', () => it.models.turns.length >= 3)
      await idle(it, look)
    },
  },
  error: {
    async play(it, look) {
      await turn(it, look, 'fail 400')
      await idle(it, look, 4_000)
    },
  },
  second: {
    async play(it, look) {
      await turn(it, look, 'slow 6')
      await working(it, look)
      await it.rest(1_500)
      await it.prompt('say second')
      await it.shows('second seen', () => it.models.turns.length > 1)
      await idle(it, look)
    },
  },
  // What a paste is whose Enter got lost.
  draft: {
    async play(it, look) {
      await ready(it, look)
      await it.press('\x1b[200~say never sent\x1b[201~', 'paste')
      await it.rest(4_000)
    },
  },
  background: {
    agents: ['claude'],
    async play(it, look) {
      await turn(it, look, 'background sleep 6')
      await it.rest(9_000)
      await idle(it, look)
    },
  },
  trust: {
    agents: ['claude'],
    home: { untrusted: true },
    async play(it) {
      await it.sees('shows dialog', /trust/i)
      await it.rest(4_000)
    },
  },
  'first-run': {
    agents: DIALOGS,
    home: { firstRun: true },
    async play(it) {
      await it.shows('shows something', (screen) => text(screen).trim() !== '')
      await it.rest(5_000)
    },
  },
  suggestion: {
    agents: ['claude'],
    without: ['claude-2.1.197'],
    home: { suggestion: true },
    async play(it) {
      await it.shows('shows something', (screen) => text(screen).trim() !== '')
      await it.rest(5_000)
    },
  },
  exit: {
    async play(it, look) {
      await ready(it, look)
      await it.prompt(look.quit)
      await it.exited()
    },
  },
  'ctrl-c': {
    async play(it, look) {
      await ready(it, look)
      await it.press(CTRL_C, 'Ctrl-C')
      if (PINNED[it.key].name !== 'codex') {
        await it.rest(300)
        await it.press(CTRL_C, 'Ctrl-C')
      }
      await it.exited()
    },
  },
}

/** Scenes an agent plays. */
export function scenesOf(key: AgentKey): string[] {
  const { name } = PINNED[key]
  return Object.entries(SCENES)
    .filter(([, { agents, without }]) => (agents?.includes(name) ?? true) && !without?.includes(key))
    .map(([scene]) => scene)
}
