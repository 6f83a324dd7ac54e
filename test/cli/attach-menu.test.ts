/** The menu of Ctrl-\ while the daemon is dead, on small terminals, and what its choices use. */
import { mkdirSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, test } from 'vitest'
import { pause, until } from '../harness/wait.ts'
import { world } from '../harness/world.ts'

const DETACH = '\x1d'
const MENU = '\x1c'
const START = { POHUNEK_NO_START: undefined }
/** Prints a numbered line again and again: what is lost or shown twice is seen. */
const TICKS = 'i=0; while :; do i=$((i+1)); echo "tick-$i"; sleep 0.05; done'
const ticks = (screen: readonly string[]): number[] =>
  screen.flatMap((row) => /^tick-(\d+)$/.exec(row)?.[1] ?? []).map(Number)
const consecutive = (numbers: readonly number[]): boolean =>
  numbers.every((it, at) => at === 0 || it === (numbers[at - 1] as number) + 1)

describe('without a daemon', () => {
  test('the menu opens with what is known, and gives the picture back with what came meanwhile', async () => {
    const it = await world()
    await it.sh(TICKS, { name: 'ticker' })
    const outer = it.terminal(['attach', 'ticker'])
    await outer.until('tick-5')
    await it.daemon.kill()
    outer.write(MENU)
    await outer.until('ticker · local · state unknown')
    expect(outer.screen().join('\n')).toContain(it.roots.work)
    expect(outer.screen().join('\n')).not.toContain('tick-')
    await pause(200)
    outer.write('\x1b')
    await outer.until((screen) => !screen.includes('rename') && screen.includes('tick-'))
    await outer.until('tick-30')
    const shown = ticks(outer.screen())
    expect(shown.length, outer.picture()).toBeGreaterThan(15)
    expect(consecutive(shown), outer.picture()).toBe(true)

    // What needs a daemon says that there is none, and the way back still works.
    outer.write(MENU)
    await outer.until('state unknown')
    outer.write('ky')
    await outer.until('no daemon answers')
    outer.write('q')
    await outer.until((screen) => !screen.includes('no daemon answers') && screen.includes('tick-'))
    expect(consecutive(ticks(outer.screen())), outer.picture()).toBe(true)
    outer.write(DETACH)
    expect(await outer.ended()).toBe(0)
  })

  test('kill starts a daemon, says so in the menu and ends the program', async () => {
    const it = await world()
    const session = await it.sh('echo ready; exec sleep 60')
    const outer = it.terminal(['attach', session.id], { env: START })
    await outer.until('ready')
    await it.daemon.kill()
    outer.write(MENU)
    await outer.until('state unknown')
    outer.write('ky')
    await outer.until('starting a local daemon')
    expect(await outer.ended(20_000)).toBe((await session.ended()).exit_code)
    const screen = outer.screen().join('\n')
    expect(screen).toContain('ready')
    expect(screen).toMatch(/\[session s-\S+ was stopped/)
    expect(screen).not.toContain('starting a local daemon')
  })

  test('a full-screen program is painted anew by a daemon the menu started', async () => {
    const it = await world()
    const session = await it.sh(
      String.raw`stty -echo; printf '\033[?1049h\033[HFULL\033[5;5Hmiddle'; while read x; do printf '\033[7;7Hgot-%s' "$x"; done`,
      { name: 'full' },
    )
    const outer = it.terminal(['attach', 'full'], { env: START })
    await outer.until('middle')
    await it.daemon.kill()
    outer.write(MENU)
    await outer.until('state unknown')
    expect(outer.screen().join('\n')).not.toContain('middle')
    outer.write('\x1b')
    await outer.until((screen) => screen.includes('FULL') && screen.includes('middle') && !screen.includes('rename'))
    outer.write('key\r')
    await outer.until('got-key')
    outer.write(DETACH)
    expect(await outer.ended()).toBe(0)
    expect(await session.screen()).toContain('got-key')
  })

  test('where none may be started the program is back all the same, and what is missing is told', async () => {
    const it = await world()
    await it.sh(
      String.raw`stty -echo; printf '\033[?1049h\033[HFULL'; while read x; do printf '\033[7;7Hgot-%s' "$x"; done`,
      { name: 'full' },
    )
    const outer = it.terminal(['attach', 'full'])
    await outer.until('FULL')
    await it.daemon.kill()
    outer.write(MENU)
    await outer.until('state unknown')
    outer.write('\x1b')
    await outer.until((screen) => screen.includes('no daemon answers') && !screen.includes('rename'))
    outer.write('key\r')
    await outer.until('got-key')
    outer.write(DETACH)
    expect(await outer.ended()).toBe(0)
    expect(outer.screen().join('\n')).not.toContain('FULL')
  })
})

test('a small terminal shows the way back, and it works', async () => {
  const it = await world()
  const session = await it.sh('echo ready; sleep 60')
  const outer = it.terminal(['attach', session.id], { cols: 24, rows: 6 })
  await outer.until('ready')
  outer.write(MENU)
  await outer.until('Esc back')
  expect(outer.screen().join(' ')).toContain('k kill')
  outer.write('r')
  await outer.until('Esc: back')
  outer.write('\x1b')
  await outer.until('Esc back')
  outer.write('\x1b')
  await outer.until((screen) => screen.includes('ready') && !screen.includes('Esc back'))
  outer.write(DETACH)
  expect(await outer.ended()).toBe(0)
})

test('rename begins with the name there is; a new session starts where the program is', async () => {
  const it = await world()
  mkdirSync(join(it.roots.work, 'deep'))
  const session = await it.sh('cd deep; echo "at $PWD"; exec sleep 60', { name: 'old' })
  const outer = it.terminal(['attach', session.id])
  await outer.until('deep')
  outer.write(MENU)
  await outer.until('old · local · running')
  outer.write('r')
  await outer.until('> old')
  outer.write('er\r')
  await until('it was renamed', async () => (await session.info()).name === 'older')
  await outer.until((screen) => !screen.includes('Esc: back'))
  outer.write(MENU)
  await outer.until('older · local')
  outer.write('r\x15new\r')
  await until('it was renamed again', async () => (await session.info()).name === 'new')
  await outer.until((screen) => !screen.includes('Esc: back'))
  outer.write(MENU)
  await outer.until('new session in the same directory')
  outer.write('n')
  const other = await until('a second session', async () => {
    const list: { id: string; cwd: string }[] = await it.call('session.list')
    return list.find((one) => one.id !== session.id)
  })
  expect(other.cwd).toBe(join(it.roots.work, 'deep'))
  outer.write(DETACH)
  expect(await outer.ended()).toBe(0)
})
