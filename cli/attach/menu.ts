/** The session menu of Ctrl-\: what it shows and what its keys do. Pure. */
import { clip, padEnd, safeLine, textWidth } from '../text.ts'

export interface MenuFacts {
  readonly name: string
  readonly host: string
  readonly project: string | undefined
  readonly branch: string | undefined
  readonly state: string
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

/** One key in a menu: what is shown next, and what is to be done. */
export function press(menu: Menu, key: string): { menu: Menu; action?: MenuAction } {
  if (menu.view === 'rename') return pressInRename(menu.text, key)
  if (menu.view !== 'choose') return key === 'y' || key === 'Y' ? { menu, action: { do: menu.view } } : { menu: FIRST }
  switch (key.toLowerCase()) {
    case 'k':
      return { menu: { view: 'kill' } }
    case 't':
      return { menu: { view: 'terminate' } }
    case 'r':
      return { menu: { view: 'rename', text: '' } }
    case 'f':
      return { menu: { view: 'choose', message: 'fork arrives with a later release' } }
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
}

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
  if (held !== 0 && held !== 1) return []
  const named = NAMED[code]
  if (named !== undefined) return [named]
  const character = String.fromCodePoint(held === 1 && shifted ? shifted : code)
  return [held === 1 && !shifted ? character.toUpperCase() : character]
}

const CHOICES = [
  ['k', 'kill the program'],
  ['t', 'terminate: kill it and remove the session'],
  ['d', 'detach'],
  ['n', 'new session in the same directory'],
  ['r', 'rename'],
  ['f', 'fork'],
  ['Ctrl-\\', 'send Ctrl-\\ to the program'],
  ['Esc', 'back'],
] as const

function body(menu: Menu): string[] {
  switch (menu.view) {
    case 'kill':
      return ['Kill the program of this session?', '', 'y  yes', 'any other key  no']
    case 'terminate':
      return ['Kill the program and remove the session?', '', 'y  yes', 'any other key  no']
    case 'rename':
      return ['New name, then Enter (Esc: back)', '', `> ${safeLine(menu.text)}`]
    case 'choose':
      return [
        ...CHOICES.map(([key, what]) => `${key.padEnd(7)} ${what}`),
        ...(menu.message === undefined ? [] : ['', menu.message]),
      ]
  }
}

/** Paints the menu on a cleared screen. Only absolute positions and resets: margins of the program stay as they are. */
export function paint(menu: Menu, facts: MenuFacts, cols: number, rows: number): string {
  const head = [facts.name, facts.host, facts.project, facts.branch, facts.state]
    .filter((it) => it !== undefined)
    .map((it) => safeLine(it))
  const width = Math.max(1, cols - 4)
  const texts = [head.join(' · '), '', ...body(menu)].map((it) => clip(it, width)).slice(0, Math.max(1, rows - 2))
  const inner = Math.max(...texts.map(textWidth))
  const left = Math.max(1, Math.floor((cols - inner) / 2))
  const top = Math.max(1, Math.floor((rows - texts.length) / 2))
  const lines = texts.map(
    (text, at) => `\x1b[${top + at};${left}H${at === 0 ? `\x1b[1m${text}\x1b[0m` : padEnd(text, inner)}`,
  )
  const last = texts.at(-1) ?? ''
  const cursor =
    menu.view === 'rename' ? `\x1b[${top + texts.length - 1};${left + textWidth(last)}H\x1b[?25h` : '\x1b[?25l'
  return `\x1b[?6l\x0f\x1b(B\x1b[0m\x1b[4l\x1b[2J${lines.join('')}${cursor}`
}
