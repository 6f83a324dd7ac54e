import { describe, expect, test } from 'vitest'
import { FIRST, keysIn, paint, press, type Menu, type MenuAction } from '../../cli/attach/menu.ts'

function run(keys: string[], named?: string): { menu: Menu; actions: MenuAction[] } {
  const actions: MenuAction[] = []
  let menu = FIRST
  for (const key of keys) {
    const next = press(menu, key, named)
    menu = next.menu
    if (next.action !== undefined) actions.push(next.action)
  }
  return { menu, actions }
}

describe('menu keys', () => {
  test.each<[string[], MenuAction[]]>([
    [['k', 'y'], [{ do: 'kill' }]],
    [['k', 'n'], []],
    [['k', 'k', 'y'], []],
    [['t', 'y'], [{ do: 'terminate' }]],
    [['t', 'escape'], []],
    [['y'], []],
    [['d'], [{ do: 'detach' }]],
    [['n'], [{ do: 'new' }]],
    [['escape'], [{ do: 'close' }]],
    [['r', 'a', 'é', '漢', 'enter'], [{ do: 'rename', name: 'aé漢' }]],
    [['r', 'a', 'b', 'backspace', 'enter'], [{ do: 'rename', name: 'a' }]],
    [['r', ' ', 'enter'], []],
    [['r', 'k', 'escape', 'd'], [{ do: 'detach' }]],
    [['r', 'a', 'clear', 'b', 'enter'], [{ do: 'rename', name: 'b' }]],
  ])('%j', (keys, actions) => expect(run(keys).actions).toEqual(actions))

  test.each<[string[], MenuAction[]]>([
    [['r', '2', 'enter'], [{ do: 'rename', name: 'work2' }]],
    [['r', 'backspace', 'enter'], [{ do: 'rename', name: 'wor' }]],
    [['r', 'clear', 'x', 'enter'], [{ do: 'rename', name: 'x' }]],
  ])('the name there is is edited: %j', (keys, actions) => expect(run(keys, 'work').actions).toEqual(actions))

  test('fork says that it is not there yet', () => {
    expect(run(['f']).menu).toEqual({ view: 'choose', message: 'fork is not available in this release' })
  })
})

describe('keysIn', () => {
  test.each<[string, string[]]>([
    ['ky', ['k', 'y']],
    ['\x1b', ['escape']],
    ['\r', ['enter']],
    ['\x7f\x08', ['backspace', 'backspace']],
    ['\x1b[107u', ['k']],
    ['\x1b[107;129u', ['k']],
    ['\x1b[107:75;2u', ['K']],
    ['\x1b[107;1:3u', []],
    ['\x1b[107;5u', []],
    ['\x1b[27u\x1b[13u', ['escape', 'enter']],
    ['\x1b[A\x1bOB\x1b[<0;1;2M\x1b[M kyx', ['x']],
    ['é漢', ['é', '漢']],
    ['\x9b\x01', []],
    ['\x15\x1b[117;5u', ['clear', 'clear']],
  ])('%j', (bytes, keys) => expect(keysIn(Buffer.from(bytes))).toEqual(keys))
})

describe('paint', () => {
  const facts = { name: 'x\x1b[2J', host: 'local', project: 'p', branch: undefined, state: 'running, idle', cwd: '/w' }
  test('shows the facts, escapes them, and stays inside the screen', () => {
    const text = paint(FIRST, facts, 80, 24)
    expect(text).toContain('x\\x1b[2J · local · p · running, idle · /w')
    for (const [, row, column] of text.matchAll(/\x1b\[(\d+);(\d+)H/g)) {
      expect(Number(row)).toBeLessThanOrEqual(24)
      expect(Number(column)).toBeLessThanOrEqual(80)
    }
  })
  test.each([
    [1, 1],
    [2, 2],
    [10, 3],
    [500, 200],
  ])('a screen of %i by %i', (cols, rows) => {
    for (const [, row] of paint(FIRST, facts, cols, rows).matchAll(/\x1b\[(\d+);\d+H/g))
      expect(Number(row)).toBeLessThanOrEqual(Math.max(2, rows))
  })

  /** The rows as they are read. */
  function shown(menu: Menu, cols: number, rows: number): string[] {
    const screen = Array.from({ length: rows }, () => '')
    for (const [, row, text = ''] of paint(menu, facts, cols, rows).matchAll(
      /\x1b\[(\d+);\d+H(?:\x1b\[1m)?([^\x1b]*)/g,
    ))
      if (text !== '') screen[Number(row) - 1] = text
    return screen
  }
  test.each([
    [24, 6],
    [30, 4],
    [40, 3],
    [80, 2],
    [80, 8],
    [12, 5],
  ])('the way back is shown on %i by %i', (cols, rows) => {
    expect(shown(FIRST, cols, rows).join('\n')).toContain('Esc back')
    expect(shown({ view: 'choose', message: 'a long message that takes some room' }, cols, rows).join('\n')).toContain(
      'Esc back',
    )
    expect(shown({ view: 'kill' }, cols, rows).join('\n')).toMatch(/y {1,2}yes/)
  })
  test('24 by 6 shows every key, 80 by 24 a row for each', () => {
    const small = shown(FIRST, 24, 6).join('\n')
    for (const key of ['k kill', 't terminate', 'd detach', 'n new', 'r rename', 'Ctrl-\\ send it'])
      expect(small).toContain(key)
    expect(shown(FIRST, 80, 24).filter((it) => /^(k|t|d|n|r|Ctrl-\\|Esc) /.test(it))).toHaveLength(7)
  })
})
