/** The session menu of Ctrl-\: what it shows and what its keys do. Pure. */
import { clip, padEnd, safeLine, textWidth, wrap } from '../text.ts'

export interface MenuFacts {
  readonly name: string
  readonly host: string
  readonly project: string | undefined
  readonly branch: string | undefined
  readonly state: string
  readonly cwd: string | undefined
  /** Whose worktree it works in; undefined outside of one. */
  readonly worktree?: 'own' | 'other' | undefined
  /** The display name, which a new name is edited from. */
  readonly named?: string | undefined
}

export type Menu =
  | { readonly view: 'choose'; readonly message?: string }
  | { readonly view: 'kill' }
  | { readonly view: 'terminate' }
  | { readonly view: 'rename'; readonly text: string }

export type MenuAction =
  { readonly do: 'close' | 'detach' | 'kill' | 'terminate' | 'new' } | { readonly do: 'rename'; readonly name: string }

export const FIRST: Menu = { view: 'choose' }
const MAX_NAME_CHARS = 128

/** One key in a menu: what is shown next, and what is to be done. `named` is the name the session has. */
export function press(menu: Menu, key: string, named = ''): { menu: Menu; action?: MenuAction } {
  if (menu.view === 'rename') return pressInRename(menu.text, key)
  if (menu.view !== 'choose') return key === 'y' || key === 'Y' ? { menu, action: { do: menu.view } } : { menu: FIRST }
  switch (key.toLowerCase()) {
    case 'k':
      return { menu: { view: 'kill' } }
    case 't':
      return { menu: { view: 'terminate' } }
    case 'r':
      return { menu: { view: 'rename', text: named } }
    case 'f':
      return { menu: { view: 'choose', message: 'fork is not available in this release' } }
    case 'd':
      return { menu, action: { do: 'detach' } }
    case 'n':
      return { menu, action: { do: 'new' } }
    case 'q':
    case 'escape':
    case 'enter':
      return { menu, action: { do: 'close' } }
    default:
      return { menu: FIRST }
  }
}

function pressInRename(text: string, key: string): { menu: Menu; action?: MenuAction } {
  if (key === 'escape') return { menu: FIRST }
  if (key === 'enter')
    return text.trim() === '' ? { menu: FIRST } : { menu: FIRST, action: { do: 'rename', name: text.trim() } }
  if (key === 'clear') return { menu: { view: 'rename', text: '' } }
  if (key === 'backspace') return { menu: { view: 'rename', text: [...text].slice(0, -1).join('') } }
  return { menu: { view: 'rename', text: [...key].length === 1 && text.length < MAX_NAME_CHARS ? text + key : text } }
}

const TOKEN = /\x1b\[M[\s\S]{3}|\x1b\[([0-9:;<=>?]*)[ -/]*([@-~])|\x1bO.|\x1b|[\s\S]/gu
const NAMED: Readonly<Record<number, string>> = {
  13: 'enter',
  10: 'enter',
  27: 'escape',
  127: 'backspace',
  8: 'backspace',
  21: 'clear',
}

const CONTROL = 4
const LETTER_U = 117

/** Keys in what a terminal sent; mouse and other reports, releases and key combinations mean nothing here. */
export function keysIn(bytes: Uint8Array): string[] {
  const keys: string[] = []
  for (const [token, parameters = '', final] of Buffer.from(bytes).toString('utf8').matchAll(TOKEN)) {
    if (final === 'u') keys.push(...kittyKey(parameters))
    else if (token === '\x1b') keys.push('escape')
    else if (!token.startsWith('\x1b')) {
      const code = token.codePointAt(0) as number
      const named = NAMED[code]
      if (named !== undefined) keys.push(named)
      else if (code >= 0x20 && !(code >= 0x7f && code <= 0x9f)) keys.push(token)
    }
  }
  return keys
}

function kittyKey(parameters: string): string[] {
  const [codes = '', modifiers = '1'] = parameters.split(';')
  const [code, shifted] = codes.split(':').map(Number)
  const [bits = '1', event] = modifiers.split(':')
  if (event === '3' || code === undefined) return []
  const held = (Number(bits) - 1) & ~(64 | 128)
  if (held === CONTROL && code === LETTER_U) return ['clear']
  if (held !== 0 && held !== 1) return []
  const named = NAMED[code]
  if (named !== undefined) return [named]
  const character = String.fromCodePoint(held === 1 && shifted ? shifted : code)
  return [held === 1 && !shifted ? character.toUpperCase() : character]
}

const terminates = ({ worktree }: MenuFacts): string =>
  worktree === 'own'
    ? 'terminate: kill it, remove the session and its worktree'
    : 'terminate: kill it and remove the session'
const begins = ({ worktree }: MenuFacts): string =>
  `new session in the same ${worktree === undefined ? 'directory' : 'worktree'}`

// The last text is for terminals without a row for each.
const choicesOf = (facts: MenuFacts) =>
  [
    ['k', 'kill the program', 'kill'],
    ['t', terminates(facts), 'terminate'],
    ['d', 'detach', 'detach'],
    ['n', begins(facts), 'new'],
    ['r', 'rename', 'rename'],
    ['Ctrl-\\', 'send Ctrl-\\ to the program', 'send it'],
    ['Esc', 'back', 'back'],
  ] as const

interface Layout {
  readonly cols: number
  readonly rows: number
}

function choices({ message }: Extract<Menu, { view: 'choose' }>, facts: MenuFacts, { cols, rows }: Layout): string[] {
  const keys = choicesOf(facts)
  const told = message === undefined ? [] : wrap(safeLine(message), cols)
  const all = keys.map(([key, what]) => `${key.padEnd(7)} ${what}`)
  const roomy = [...all, ...(told.length > 0 ? ['', ...told] : [])]
  if (roomy.length <= rows) return roomy
  // The way back comes first: it is what must never be cut off.
  const short = [...keys].reverse().map(([key, , what]) => `${key} ${what}`.replaceAll(' ', '\u00a0'))
  return [...wrap(short.join(' '), cols).map((it) => it.replaceAll('\u00a0', ' ')), ...told]
}

function question(text: string, { cols, rows }: Layout): string[] {
  const lines = wrap(text, cols)
  return rows >= lines.length + 3 ? [...lines, '', 'y  yes', 'any other key  no'] : [...lines, 'y yes, other keys no']
}

function body(menu: Menu, facts: MenuFacts, layout: Layout): string[] {
  switch (menu.view) {
    case 'kill':
      return question('Kill the program of this session?', layout)
    case 'terminate':
      return question(
        facts.worktree === 'own'
          ? 'Kill the program, remove the session and its worktree? Its branch stays.'
          : 'Kill the program and remove the session?',
        layout,
      )
    case 'rename':
      return [
        ...wrap('New name, then Enter (Esc: back)', layout.cols),
        `> ${clip(safeLine(menu.text), layout.cols - 3, 'end')}`,
      ]
    case 'choose':
      return choices(menu, facts, layout)
  }
}

/** Paints the menu on a cleared screen. Only absolute positions and resets: margins of the program stay as they are. */
export function paint(menu: Menu, facts: MenuFacts, cols: number, rows: number): string {
  const head = [facts.name, facts.host, facts.project, facts.branch, facts.state, facts.cwd]
    .filter((it) => it !== undefined)
    .map((it) => safeLine(it))
  const width = Math.max(1, cols - 2)
  const roomy = body(menu, facts, { cols: width, rows: rows - 3 })
  // The header goes before any key does.
  const header = roomy.length + 2 < rows ? [head.join(' · '), ''] : roomy.length < rows ? [head.join(' · ')] : []
  const texts = [...header, ...roomy].map((it) => clip(it, width)).slice(0, Math.max(1, rows))
  const inner = Math.max(...texts.map(textWidth))
  const left = Math.max(1, Math.floor((cols - inner) / 2))
  const top = Math.max(1, Math.floor((rows - texts.length) / 2))
  const lines = texts.map((text, at) => {
    const shown = at === 0 && header.length > 0 ? `\x1b[1m${text}\x1b[0m` : padEnd(text, inner)
    return `\x1b[${top + at};${left}H${shown}`
  })
  const last = texts.at(-1) ?? ''
  const cursor =
    menu.view === 'rename' ? `\x1b[${top + texts.length - 1};${left + textWidth(last)}H\x1b[?25h` : '\x1b[?25l'
  return `\x1b[?6l\x0f\x1b(B\x1b[0m\x1b[4l\x1b[2J${lines.join('')}${cursor}`
}
