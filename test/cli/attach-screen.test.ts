/**
 * What an attach leaves on the terminal it ran in. The picture of the session is the person's: the message, and the shell
 * after it, start below it and cover nothing, in the terminals people use and whatever modes the program left on.
 */
import { execFileSync } from 'node:child_process'
import { existsSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, test } from 'vitest'
import { Outer } from '../harness/pty.ts'
import { bin } from '../harness/roots.ts'
import { until } from '../harness/wait.ts'
import { world, type World } from '../harness/world.ts'

const DETACH = '\x1d'
const SHELL_AFTER = '"$P" attach "$S"; echo "rc=$?"; printf "prompt> "; read x; sleep 60'

/** A terminal with a shell in it that attaches and then prompts. */
interface Screen {
  press(bytes: string): void
  /** All rows, those that scrolled out of the screen first. */
  rows(): string[]
}

const environment = (it: World, id: string): Record<string, string> =>
  it.roots.env({ POHUNEK_NO_START: '1', P: bin('pohunek'), S: id })

function inXterm(it: World, id: string): Screen {
  const outer = new Outer('/bin/sh', ['-c', `echo above; ${SHELL_AFTER}`], {
    cwd: it.roots.work,
    env: environment(it, id),
  })
  it.keep({ close: () => outer.dispose() })
  return { press: (bytes) => outer.write(bytes), rows: () => rowsOf(outer) }
}

function rowsOf(outer: Outer): string[] {
  const { active } = outer.terminal.buffer
  return Array.from({ length: active.length }, (_, row) => active.getLine(row)?.translateToString(true) ?? '')
}

let servers = 0
const TMUX = ['/usr/bin/tmux', '/usr/local/bin/tmux'].find(existsSync)

function inTmux(it: World, id: string): Screen {
  const socket = join(it.roots.base, `tmux-${++servers}`)
  const tmux = (...args: string[]): string =>
    execFileSync(TMUX as string, ['-S', socket, '-f', '/dev/null', ...args], {
      env: environment(it, id),
      encoding: 'utf8',
      timeout: 10_000,
    })
  tmux('new-session', '-d', '-x', '80', '-y', '24', '/bin/sh', '-c', `echo above; ${SHELL_AFTER}`)
  it.keep({
    close: () => {
      try {
        tmux('kill-server')
      } catch {
        // its last program ended, and it with that
      }
    },
  })
  return {
    press: (bytes) => void tmux('send-keys', '-H', ...Array.from(Buffer.from(bytes), (byte) => byte.toString(16))),
    rows: () => tmux('capture-pane', '-p', '-S', '-100').split('\n'),
  }
}

const SEQ = String.raw`printf '\033[H\033[2J'; seq -f 'row-%02g' 12; `
const ALL = Array.from({ length: 12 }, (_, at) => `row-${String(at + 1).padStart(2, '0')}`)
const PICTURES: [string, string, string[]][] = [
  ['a shell’s output', `${SEQ} true`, ALL],
  ['the cursor at home', String.raw`${SEQ} printf '\033[H'`, ALL],
  ['margins and origin mode', String.raw`${SEQ} printf '\033[2;5r\033[?6h'`, ALL],
  ['a full screen', String.raw`printf '\033[H\033[2J'; seq -s ' ' 9; seq -f 'row-%02g' 12; seq 10; printf end`, ALL],
  [
    'a full-screen program',
    String.raw`${SEQ} printf '\033[?1049h\033[2;5r\033[?6h\033[H'; seq -f 'hidden-%g' 20; printf '\033[3;3H'`,
    ALL,
  ],
  [
    'a full-screen program that is over',
    String.raw`${SEQ} printf '\033[?1049h\033[H'; seq -f 'hidden-%g' 20; printf '\033[?1049l'; printf '\033[H'`,
    ALL,
  ],
]

/** The rows once the shell prompts again. */
async function afterwards(screen: Screen): Promise<string[]> {
  await until('the prompt of the shell', () => screen.rows().some((row) => row.startsWith('prompt>')), {
    show: () => screen.rows().join('\n'),
  })
  return screen.rows()
}

describe.each([
  ['xterm', inXterm],
  ['tmux', inTmux],
] as const)('in %s', (terminal, start) => {
  const skip = terminal === 'tmux' && TMUX === undefined
  describe.skipIf(skip)('after a detach and an end the picture is whole, and the shell goes on below it', () => {
    test.each(PICTURES)('%s', async (_, script, picture) => {
      const it = await world()
      const session = await it.sh(`stty -echo; ${script}; printf '\\033]2;ready\\007'; read x; exit 3`)
      await session.untilOutput(']2;ready')
      for (const [key, message, code] of [
        [DETACH, '[detached; ', 0],
        ['\r', `[session ${session.id} ended`, 3],
      ] as const) {
        const screen = start(it, session.id)
        await until('the picture', () => screen.rows().some((row) => /row-12|hidden-/.test(row)), {
          show: () => screen.rows().join('\n'),
        })
        screen.press(key)
        const rows = await afterwards(screen)
        const text = rows.join('\n')
        const at = rows.findIndex((row) => row.startsWith(message))
        expect(at, text).toBeGreaterThan(0)
        // Whole, in order, above the message: nothing between the first and the last row of it is missing.
        const first = rows.indexOf(picture[0] as string)
        expect(rows.slice(first, first + picture.length), text).toEqual(picture)
        expect(first + picture.length, text).toBeLessThanOrEqual(at)
        // Right below it: what was there is still to be seen.
        const last = rows.slice(0, at).findLastIndex((row) => row !== '')
        expect(at - last, text).toBeLessThanOrEqual(script.includes('hidden-') ? 2 : 1)
        expect(rows.slice(at + 1, at + 3), text).toEqual([`rc=${code}`, expect.stringMatching(/^prompt> ?$/)])
        expect(rows.slice(at + 3).join(''), text).toBe('')
        expect(text).not.toContain('hidden-')
      }
    })
  })
})

test('a lost connection is told below the picture, which stays whole', async () => {
  const it = await world({ end: 'kill' })
  const session = await it.sh(`stty -echo; printf '\\033[H\\033[2J'; seq -f 'row-%02g' 23; printf row-24; sleep 60`)
  await session.untilScreen('row-24')
  const outer = it.terminal(['attach', session.id])
  await outer.until('row-24')
  const worker = session.worker()
  await it.daemon.kill()
  process.kill(worker.pid, 'SIGKILL')
  await outer.until('reconnecting')
  const rows = outer.screen()
  expect(rows.slice(0, 23)).toEqual(Array.from({ length: 23 }, (_, at) => `row-${String(at + 2).padStart(2, '0')}`))
  expect(rows[23]).toContain('reconnecting')
  // Another line for the person takes the same row.
  outer.write('x')
  await outer.until('the key was not sent')
  expect(outer.screen().slice(0, 23)).toEqual(rows.slice(0, 23))
  outer.write(DETACH)
  expect(await outer.ended()).toBe(0)
  expect(outer.screen().slice(-3).join('\n')).toContain('[detached; ')
})

test('a pipe gets what the session wrote and no reset; a terminal behind a piped input is reset', async () => {
  const it = await world()
  const session = await it.sh(String.raw`printf '\033[?1002h\033[?2004hready'; sleep 0.3; exit 0`)
  const piped = await it.cli(['attach', session.id])
  expect(piped.code).toBe(0)
  expect(piped.stdout).not.toContain('\x1b[<u')

  const other = await it.sh(String.raw`printf '\033[?1002h\033[?2004hready'; sleep 1; exit 0`)
  const outer = new Outer('/bin/sh', ['-c', `: | "$P" attach "$S"; echo "rc=$?"`], {
    cwd: it.roots.work,
    env: environment(it, other.id),
  })
  it.keep({ close: () => outer.dispose() })
  await outer.until('rc=0')
  expect(outer.terminal.modes.mouseTrackingMode).toBe('none')
  expect(outer.terminal.modes.bracketedPasteMode).toBe(false)
})

test('a terminal that would show nothing is refused, before anything is made', async () => {
  const it = await world()
  for (const command of ['attach some', 'session new --attach']) {
    const outer = new Outer('/bin/sh', ['-c', `"$P" ${command} > out; echo "rc=$?"`], {
      cwd: it.roots.work,
      env: environment(it, ''),
    })
    it.keep({ close: () => outer.dispose() })
    await outer.until('rc=2')
    expect(outer.screen().join('')).toContain('standard output is not that terminal')
    expect(outer.screen().join('')).toContain('--follow')
  }
  expect(await it.call('session.list')).toEqual([])
})

test('the way back is told by the name where it means one session, by the id elsewhere', async () => {
  const it = await world()
  const hint = async (target: string): Promise<string> => {
    const outer = it.terminal(['attach', target])
    await outer.until('ready')
    outer.write(DETACH)
    await outer.ended()
    return outer.raw.toString().replace(/^[^]*\[detached; pohunek attach (.*) comes back\][^]*$/, '$1')
  }
  const plain = await it.sh('echo ready; sleep 60', { name: 'work' })
  const spaced = await it.sh('echo ready; sleep 60', { name: "it's mine" })
  const unnamed = await it.sh('echo ready; sleep 60')
  expect(await hint(plain.id)).toBe('work')
  expect(await hint(spaced.id)).toBe(String.raw`'it'\''s mine'`)
  expect(await hint(unnamed.id)).toBe(unnamed.id)
  await it.sh('echo ready; sleep 60', { name: 'work' })
  expect(await hint(plain.id)).toBe(plain.id)
})
