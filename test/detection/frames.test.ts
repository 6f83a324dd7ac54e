/**
 * The manifests of this build against screens. test/fixtures/frames has screens of real agents (the visible rows from
 * the first to the last that is not empty, at most the lowest 18); `screen` is what a person sees in them without their
 * title. Codex, and Claude 2.1.197 with a status line of the user's own, show nothing but their title while an answer
 * arrives: their screen is that of an idle one then.
 */
import { readFileSync, readdirSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, test } from 'vitest'
import { parseManifest, type Manifest, type Rule } from '../../plugins/detection/manifest.ts'
import { bestRule } from '../../plugins/detection/match.ts'
import { readPicture } from '../../plugins/detection/readings.ts'
import type { Picture } from '../../plugins/detection/regions.ts'
import { REPOSITORY } from '../harness/roots.ts'

const FRAMES = join(REPOSITORY, 'test/fixtures/frames')

interface Frame {
  name: string
  title?: string
  screen: 'working' | 'blocked' | 'idle' | 'none'
  rule: string | null
  title_rule: string | null
  wrapped: number[]
  rows: string[]
}

function manifestOf(id: string): Manifest {
  const file = join(REPOSITORY, 'runtime-packages', id, 'detect.toml')
  return parseManifest(readFileSync(file, 'utf8'), file)
}
const manifests = {
  claude: manifestOf('claude'),
  codex: manifestOf('codex'),
  pi: manifestOf('pi'),
  hermes: manifestOf('hermes'),
  shell: manifestOf('shell'),
}
type Agent = keyof typeof manifests

/** A screen of these rows at the bottom of 30. */
const screen = (rows: string | readonly string[], more: Partial<Picture> = {}): Picture => {
  const lines = typeof rows === 'string' ? rows.replace(/^\n|\n\s*$/g, '').split('\n') : rows
  const above = Math.max(0, 30 - lines.length)
  return {
    ...more,
    visible_lines: [...Array.from({ length: above }, () => ''), ...lines],
    wrapped_rows: (more.wrapped_rows ?? []).map((row) => row + above),
  }
}
const onScreen = (agent: Agent, picture: Picture): Rule | undefined => bestRule(manifests[agent], picture, 'screen')
const inTitle = (agent: Agent, title: string): string | undefined =>
  bestRule(manifests[agent], screen([], { title }), 'title')?.state

for (const file of readdirSync(FRAMES).filter((it) => it.endsWith('.json'))) {
  const { agent, version, frames } = JSON.parse(readFileSync(join(FRAMES, file), 'utf8')) as {
    agent: Agent
    version: string
    frames: Frame[]
  }
  describe(`${agent} ${version}`, () => {
    test.each(frames.map((it) => [it.name, it] as const))('%s', (_, frame) => {
      const picture = screen(frame.rows, {
        wrapped_rows: frame.wrapped,
        ...(frame.title === undefined ? {} : { title: frame.title }),
      })
      const rule = onScreen(agent, picture)
      expect(rule?.state ?? 'none').toBe(frame.screen)
      expect(rule?.id ?? null).toBe(frame.rule)
      expect(rule?.visibleBlocker ?? false).toBe(frame.screen === 'blocked')
      expect(bestRule(manifests[agent], picture, 'title')?.id ?? null).toBe(frame.title_rule)
      // Its input box is on each screen of an agent that rests or works; a question either takes its place or is seen.
      const { composer, asked } = readPicture(manifests[agent], picture)
      if (frame.screen === 'idle' || frame.screen === 'working') expect(composer).toBe(true)
      expect(asked !== undefined).toBe(frame.screen === 'blocked')
      if (frame.screen === 'blocked' && agent !== 'pi') expect(composer).toBe(false)
    })
  })
}

const RULE = '─'.repeat(80)
const claudeBox = (above: string, footer = '  ? for shortcuts'): string => `${above}\n\n${RULE}\n❯ \n${RULE}\n${footer}`
const codexComposer = (above: string): string =>
  `${above}\n\n› Ask Codex to do anything\n\n  lab-model default · ~/project\n  ← for agents · ? for shortcuts`
const piEditor = (above: string): string => `${above}\n\n${RULE}\n\n${RULE}\n~/project\n0.1%/100k (auto)    lab-model`
const withPrompt: Record<'claude' | 'codex' | 'pi', (above: string) => string> = {
  claude: claudeBox,
  codex: codexComposer,
  pi: piEditor,
}
const AGENTS = ['claude', 'codex', 'pi'] as const

test.each(AGENTS)('FC-61dc: %s with a spinner no release has had is working or unknown, never idle', (agent) => {
  for (const status of [
    '◴ Reticulating splines… (12s · 3 tools)',
    '▰▱▱ Cogitating… 14s',
    '⣷ Musing... (esc to interrupt)',
  ])
    expect(onScreen(agent, screen(withPrompt[agent](` answer\n\n${status}`)))?.state, status).toBe('working')
  // An interface without the prompt we know proves nothing.
  for (const rows of ['◴ Reticulating splines (12s)', '╔════╗\n║ hi ║\n╚════╝', '$ ', ''])
    expect(onScreen(agent, screen(rows))?.state, rows).not.toBe('idle')
  for (const rows of ['╔════╗\n║ hi ║\n╚════╝', '$ ', '']) expect(onScreen(agent, screen(rows)), rows).toBeUndefined()
})

test('FC-2286: a title may prove working; one that looks idle leaves it to the screen', () => {
  for (const title of ['⠂ task', '⠋ task', '◐ task', '◑ Claude Code'])
    expect(inTitle('claude', title), title).toBe('working')
  for (const title of ['dir · task · id', 'task', '◈ task']) expect(inTitle('claude', title), title).toBeUndefined()
  expect(inTitle('claude', '✳ task')).toBe('idle')
  const body = '● I look at it\n\n✻ Mulling… (12s · ↓ 1k tokens)'
  expect(onScreen('claude', screen(claudeBox(body), { title: '✳ task' }))?.state).toBe('working')
  expect(inTitle('codex', '⠼ Lab | project')).toBe('working')
  expect(inTitle('codex', '[ ! ] Action Required | Lab | project')).toBe('blocked')
})

/** The footer in ten wordings, and none. */
const FOOTERS = [
  'Enter to select · ↑/↓ to navigate · Esc to cancel',
  'Press Enter to confirm or Esc to go back',
  'enter confirm · esc cancel',
  '↵ choose   ⎋ abort',
  '[Enter] accept  [Esc] dismiss',
  'Hit return to pick one, escape to leave',
  'Esc: back | Enter: ok',
  'Use arrow keys. RETURN submits, ESC rejects.',
  '⏎ continue · esc never mind',
  '(Enter) yes this one (Esc) none',
  '',
]
test.each(AGENTS.flatMap((agent) => FOOTERS.map((footer) => [agent, footer] as const)))(
  'FC-650b: %s with a choice on the screen waits, whatever its footer says: %j',
  (agent, footer) => {
    for (const cursor of ['❯', '›', '>'])
      for (const above of [`${RULE}\n Which one?\n\n`, '\n Which one?\n\n']) {
        const rows = `● earlier answer\n\n${above} ${cursor} 1. Postgres\n   2. MySQL\n   3. Something else\n\n ${footer}`
        const rule = onScreen(agent, screen(rows))
        expect(rule, `${cursor} ${above}`).toMatchObject({ state: 'blocked', visibleBlocker: true })
      }
  },
)

test('FC-650b: the cursor on another item, items without numbers, a narrow screen', () => {
  const choice = (options: string): string =>
    `● earlier\n\n${RULE}\n Which one?\n${options}\n\n Enter to confirm · Esc to cancel`
  expect(onScreen('claude', screen(choice('   1. a\n ❯ 2. b')))?.visibleBlocker).toBe(true)
  expect(onScreen('claude', screen(choice(' ❯ No, exit\n   Yes, I trust this folder')))?.visibleBlocker).toBe(true)
  expect(onScreen('claude', screen(`${RULE}\n Which one?\n\n ❯ Yes\n   No`))?.visibleBlocker).toBe(true)
  expect(onScreen('claude', screen(`${RULE}\n Which?\n Enter to con-\n firm · Esc\n to cancel`))?.visibleBlocker).toBe(
    true,
  )
  expect(onScreen('codex', screen('  Which one?\n\n  1. a\n› 2. b\n\n  enter select · esc back'))?.visibleBlocker).toBe(
    true,
  )
})

test('FC-6596: an approval in the own interface of the agent blocks, a spinner in the title or not', () => {
  const box = [
    '● Bash(rm -rf build)',
    `╭${RULE}╮`,
    '│ Bash command                      │',
    '│   rm -rf build                    │',
    '│ Do you want to proceed?           │',
    '│ ❯ 1. Yes                          │',
    '│   2. No, tell it what to do       │',
    `╰${RULE}╯`,
  ]
  const open = `● Bash(rm -rf build)\n  ⎿  Running…\n\n${RULE}\n Bash command\n   rm -rf build\n\n Do you want to proceed?\n ❯ 1. Yes\n   2. No`
  for (const rows of [box, open]) {
    const picture = screen(rows, { title: '⠐ clean up' })
    expect(onScreen('claude', picture)).toMatchObject({ state: 'blocked', visibleBlocker: true })
    expect(bestRule(manifests.claude, picture, 'title')?.state).toBe('working')
  }
  const codex = screen(
    '  Would you like to run the following command?\n\n  $ rm -rf build\n\n› 1. Yes, proceed (y)\n  2. No (esc)',
    { title: '⠼ Lab | project' },
  )
  expect(onScreen('codex', codex)).toMatchObject({ state: 'blocked', visibleBlocker: true })
})

const QUOTED = [
  ' Do you want to proceed?',
  ' ❯ 1. Yes',
  '   2. No',
  ' Enter to select · Esc to cancel',
  '  Press enter to confirm or esc to cancel',
  '  ✻ Mulling… (12s · esc to interrupt)',
  '  ⠋ Working... (3s)',
  '  Retrying (1/3) in 2s',
  '  [y/n]',
].join('\n')

test.each(AGENTS)('FC-8d56: %s that quotes a dialog and a spinner in its answer is at its prompt', (agent) => {
  const done = { claude: '✻ Brewed for 1s', codex: '  Worked for 1s • 12:00', pi: ' that is all' }[agent]
  const rows = withPrompt[agent](`● Look:\n${QUOTED}\n\n${done}`)
  expect(onScreen(agent, screen(rows))).toMatchObject({ state: 'idle', visibleBlocker: false })
})

test.each(AGENTS)('%s: a text in the input box leaves it one, whatever the text', (agent) => {
  const sign = { claude: '❯\u00a0', codex: '› ', pi: '' }[agent]
  const texts = [
    'half a prompt',
    '1. first\n  2. second',
    'Would you like to proceed?\n  > 1. Yes\n  2. No',
    'print [y/n]',
    '• a bullet\n\n  ● another',
    '# heading · ~/somewhere',
  ]
  for (const text of texts)
    for (const status of ['', '✶ Leavening… (3s)']) {
      const rows = {
        claude: `● done\n\n${status}\n${RULE}\n${sign}${text}\n${RULE}\n  ⏸ manual mode on`,
        codex: `• done\n\n${status}\n\n${sign}${text}\n\n  lab-model default · ~/project\n   ⚠ 2 warnings`,
        pi: ` done\n\n${status}\n${RULE}\n${sign}${text}\n${RULE}\n~/project\n0.1%/100k (auto)    lab-model`,
      }[agent]
      expect(readPicture(manifests[agent], screen(rows)), rows).toMatchObject({ composer: true, asked: undefined })
    }
})

test('FC-8d56: what is printed in a shell is no state', () => {
  const picture = screen(`$ cat dialog.txt\n${QUOTED}\nAction Required: working, blocked, idle\n$ `, { title: 'bash' })
  expect(onScreen('shell', picture)).toBeUndefined()
  expect(bestRule(manifests.shell, picture, 'title')).toBeUndefined()
  expect(inTitle('shell', 'build running')).toBe('working')
  expect(inTitle('shell', 'ready')).toBe('idle')
  expect(inTitle('shell', 'Action Required: ready')).toBe('blocked')
  expect(inTitle('shell', 'already reworking')).toBeUndefined()
})

test.each(AGENTS)('FC-f2af: %s that tries again is working', (agent) => {
  const lines = [
    '✻ API error · Retrying in 12s · attempt 3/10',
    '⠇ Retrying (1/3) in 2s... (escape to cancel)',
    '✶ Connection lost (ECONNRESET), retry 2 of 5 in 8 seconds',
    '✽ Overloaded, reconnecting 4/5 … 3s',
  ]
  for (const line of lines) {
    const rule = onScreen(agent, screen(withPrompt[agent](` the prompt\n\n${line}`)))
    expect(rule?.state, line).toBe('working')
  }
})

test('a text in the prompt box of claude hides that a turn runs: idle only where the turn above has ended', () => {
  const typed = (above: string, footer: string): string =>
    `${above}\n\n${RULE}\n❯\u00a0half a prompt\n${RULE}\n${footer}`
  expect(onScreen('claude', screen(typed('● tick 1\n  tick 2', '  ⏸ manual mode on')))).toBeUndefined()
  expect(onScreen('claude', screen(typed('● done\n\n✻ Brewed for 4s · done 8:35 PM', '')))?.state).toBe('idle')
  expect(onScreen('claude', screen(typed('  ⎿  Interrupted · What should Claude do instead?', '')))?.state).toBe('idle')
  expect(onScreen('claude', screen(typed(' tip', '  ? for shortcuts · ← for agents')))?.state).toBe('idle')
  const banner = ' ▐▛███▛█   Claude Code v2.1.332\n▝▜██████▀  Sonnet\n ▝▝   ▝▝   ~/project'
  expect(onScreen('claude', screen(typed(banner, '  ⏸ manual mode on')))?.state).toBe('idle')
  expect(onScreen('claude', screen(typed(`${banner}\n\n❯ slow 4`, '')))).toBeUndefined()
  expect(onScreen('claude', screen(typed(`${banner}\n\n● tick 1`, '')))).toBeUndefined()
})

test('claude on a screen too narrow for its footer is still working', () => {
  for (const cut of ['esc to interr…', 'esc to i…', 'esc to…', 'esc…', 'e…'])
    expect(onScreen('claude', screen(claudeBox('● tick', `  ⏸ plan mode on (shift+tab) · ${cut}`)))?.state, cut).toBe(
      'working',
    )
  expect(onScreen('claude', screen(claudeBox('● tick', '  ⏸ manual mode on · ? for shortcuts · ←…')))?.state).toBe(
    'idle',
  )
})

test('a status line of the user under the prompt box of claude is no question', () => {
  for (const footer of ['  ❯ main ctx 12%\n  second row', '  ctx 12%\n  ❯ main', '  ➤ esc'])
    expect(onScreen('claude', screen(claudeBox('● done', footer)))?.state, footer).toBe('idle')
})

test('codex: update, trust, login and hooks are questions', () => {
  const dialogs = [
    '  ✨ Update available! 0.171.0 -> 0.172.0\n\n  Release notes: see the project\n\n› 1. Update now\n  2. Skip\n  3. Skip until next version\n\n  Press enter to continue',
    '> You are in ~/project\n\n  Do you trust the contents of this directory? Working with untrusted contents\n  comes with higher risk of prompt injection.\n\n› 1. Yes, continue\n  2. No, quit\n\n  Press enter to continue',
    '  Sign in with ChatGPT to use Codex as part of your paid plan\n  or connect an API key for usage-based billing\n\n> 1. Sign in with ChatGPT\n  2. Sign in with Device Code\n  3. Provide your own API key\n\n  Press Enter to continue',
    '  Hooks need review\n  12 hooks are new or changed.\n\n› 1. Review hooks\n  2. Trust all and continue\n\n  enter confirm · esc skip',
    '  Question 1/1 (1 unanswered)\n  Which colour?\n\n  › 1. Red\n    2. Blue\n\n  enter to submit answer | esc to interrupt',
    '  Implement this plan?\n\n› 1. Yes, implement this plan\n  2. No, stay in Plan mode\n\n  Press enter to confirm or esc to go back',
  ]
  for (const rows of dialogs)
    expect(onScreen('codex', screen(rows)), rows).toMatchObject({ state: 'blocked', visibleBlocker: true })
})

test('claude: plan, workflow, API key, login, update notes are questions', () => {
  const dialogs = [
    `${RULE}\n Ready to code?\n\n Here is Claude's plan:\n╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌\n 1. Do it\n╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌\n Would you like to proceed?\n\n ❯ 1. Yes, and auto-accept edits\n   2. Yes, and manually approve edits\n   3. No, keep planning`,
    `${RULE}\n Run this workflow?\n   3 agents\n\n   1. Yes, run it\n   2. No`,
    `${RULE}\n  Do you want to use this API key?\n\n    1. Yes\n    2. No (recommended)`,
    ' Select login method:\n\n ❯ 1. Claude account with subscription\n   2. Anthropic Console account',
    ' Login successful. Press Enter to continue…',
    ' Paste code here if prompted > ',
  ]
  for (const rows of dialogs)
    expect(onScreen('claude', screen(rows)), rows).toMatchObject({ state: 'blocked', visibleBlocker: true })
})

test('pi turns its spinner in the rule above the editor in newer releases', () => {
  const rows = ` answer\n\n── ⠋ Working ${'─'.repeat(40)}\n\n${RULE}\n~/project\n↑1 ↓1 0.1%/100k (auto)    lab-model`
  expect(onScreen('pi', screen(rows))).toMatchObject({ id: 'rule-spinner', state: 'working' })
})

test('hermes: prompt, turn, approval in both interfaces, and a start without a key', () => {
  const frames: [string, string | undefined][] = [
    ['Welcome to Hermes Agent!\n\n❯ ', 'idle'],
    [`${'─'.repeat(10)} ⚕ lab-model · 2% · ready ${'─'.repeat(10)}\n❯ `, 'idle'],
    ['● tick\n\n⚕ ❯ type a message + Enter to interrupt, Ctrl+C to cancel', 'working'],
    ['(◔_◔) pondering... (2.3s)\n⚕ ❯ ', 'working'],
    [
      `╭─ ⚠ Dangerous Command ${'─'.repeat(30)}╮\n│ rm -rf build                  │\n│ ❯ Allow once                  │\n│   Allow for this session      │\n│   Deny                        │\n╰${'─'.repeat(50)}╯`,
      'blocked',
    ],
    ['⚠ Approval required\n  rm -rf build\n  1. Allow once\n  2. Always allow\n  3. Deny\n\n ↑/↓ select', 'blocked'],
    ['No inference provider configured. Run `hermes setup` to choose one.', 'blocked'],
    ['Error: missing API key', 'blocked'],
    ['building…', undefined],
  ]
  for (const [rows, state] of frames) expect(onScreen('hermes', screen(rows))?.state, rows).toBe(state)
})

/** Arguments as joined by blanks. */
const isNamed = (agent: Agent, comm: string, cmdline: string): boolean =>
  manifests[agent].process.comm.some((it) => it.test(comm)) ||
  manifests[agent].process.cmdline.some((it) => it.test(cmdline))

test('FC-b4d2: wrapped, renamed and interpreted programs are the agent; what only speaks of it is not', () => {
  const named: [Agent, string, string][] = [
    ['claude', 'claude', 'claude --model x'],
    ['claude', 'claude.exe', '/opt/n/claude-code/bin/claude.exe'],
    ['claude', '.claude-unwrapp', '/nix/store/x/bin/.claude-unwrapped --resume y'],
    ['claude', 'claude-wrapped', 'claude'],
    ['claude', 'node', 'node /opt/n/node_modules/@anthropic-ai/claude-code/cli.js'],
    ['claude', 'node', '/usr/bin/node --max-old-space-size=4096 /usr/local/bin/claude'],
    ['claude', 'bun', 'bun run /opt/claude.ts'.replace('.ts', '.js')],
    ['codex', 'codex', 'codex resume x'],
    ['codex', 'node', 'node /opt/x/codex.js'],
    ['codex', 'MainThread', 'node /usr/bin/codex --no-daemon'],
    ['pi', 'pi', 'pi'],
    ['pi', 'node', 'node /opt/n/node_modules/@mariozechner/pi-coding-agent/dist/cli.js'],
    ['hermes', 'hermes', 'hermes chat'],
    ['hermes', 'python3', 'python3 -m hermes_cli chat'],
    ['hermes', 'python', '/opt/venv/bin/python /opt/venv/bin/hermes chat'],
  ]
  for (const [agent, comm, cmdline] of named) expect(isNamed(agent, comm, cmdline), `${comm}: ${cmdline}`).toBe(true)
  const others: [Agent, string, string][] = [
    ['claude', 'vim', 'vim claude'],
    ['claude', 'node', 'node server.js claude'],
    ['claude', 'bash', 'bash -c claude'],
    ['claude', 'tail', 'tail -f /var/log/claude'],
    ['claude', 'claudette', 'claudette'],
    ['codex', 'less', 'less codex.js'],
    ['codex', 'node', 'node build.js --name codex'],
    ['pi', 'pip', 'pip install pi'],
    ['pi', 'ping', 'ping pi'],
    ['hermes', 'python3', 'python3 train.py hermes'],
  ]
  for (const [agent, comm, cmdline] of others) expect(isNamed(agent, comm, cmdline), `${comm}: ${cmdline}`).toBe(false)
})
