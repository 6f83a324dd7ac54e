import { describe, expect, test } from 'vitest'
import { FIRST, keysIn, paint, press, type Menu, type MenuAction } from '../../cli/attach/menu.ts'

function run(keys: string[]): { menu: Menu; actions: MenuAction[] } {
  const actions: MenuAction[] = []
  let menu = FIRST
  for (const key of keys) {
    const next = press(menu, key)
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
  ])('%j', (keys, actions) => expect(run(keys).actions).toEqual(actions))

  test('fork says that it arrives later', () => {
    expect(run(['f']).menu).toEqual({ view: 'choose', message: 'fork arrives with a later release' })
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
  ])('%j', (bytes, keys) => expect(keysIn(Buffer.from(bytes))).toEqual(keys))
})

describe('paint', () => {
  const facts = { name: 'x\x1b[2J', host: 'local', project: 'p', branch: undefined, state: 'running, idle' }
  test('shows the facts, escapes them, and stays inside the screen', () => {
    const text = paint(FIRST, facts, 80, 24)
    expect(text).toContain('x\\x1b[2J · local · p · running, idle')
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
})
