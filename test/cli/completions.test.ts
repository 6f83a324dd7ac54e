import { existsSync, mkdirSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { expect, test } from 'vitest'
import { completionTree } from '../../cli/completions.ts'
import { commands as sessions } from '../../plugins/sessions/commands.ts'
import { run } from '../harness/cli.ts'
import { Outer } from '../harness/pty.ts'
import { bin, type Env } from '../harness/roots.ts'
import type { Session } from '../harness/session.ts'
import { world, type World } from '../harness/world.ts'

/** Where a shell is; a test of one that is not installed is shown as skipped. */
const find = (name: string): string | undefined =>
  (process.env.PATH ?? '')
    .split(':')
    .map((directory) => join(directory, name))
    .find(existsSync)

const environment = (it: World): Env =>
  it.roots.env({ POHUNEK_NO_START: '1', PATH: `${dirname(bin('pohunek'))}:${process.env.PATH ?? ''}` })

/** What is offered behind a line, the same in every shell. `live` also asks for the sessions there are. */
const OFFERS = (session: Session): [line: string, live: boolean, offers: string[]][] => [
  ['pohunek ses', false, ['session']],
  ['pohunek session st', false, ['stop']],
  ['pohunek --host local session st', false, ['stop']],
  ['pohunek daemon st', false, ['start', 'status', 'stop']],
  ['pohunek session new --na', false, ['--name']],
  ['pohunek session read x --format ', false, ['ansi', 'text']],
  ['pohunek session input x --timeout ', true, []],
  ['pohunek completions ', false, ['bash', 'fish', 'zsh']],
  ['pohunek attach s-', true, [session.id]],
  ['pohunek attach s-', false, []],
  ['pohunek session stop --json s-', true, [session.id]],
  ['pohunek session screen he', true, ['here']],
  // One session is enough for these, and a value of a flag is no target.
  [`pohunek attach ${session.id} `, true, []],
  ['pohunek session stop here ', true, []],
  ['pohunek session output here --max-bytes 7 s-', true, []],
  ['pohunek session output --max-bytes 7 s-', true, [session.id]],
  ['pohunek completions bash ', false, []],
]

test('every place of the command tree', () => {
  const tree = completionTree(sessions)
  expect(tree.map(({ words }) => words.join(' ')).sort()).toEqual(
    ['', 'session', ...sessions.map(({ path }) => path.join(' '))].sort(),
  )
})

test.skipIf(find('bash') === undefined)('bash', async () => {
  const it = await world()
  const session = await it.sh('sleep 60', { name: 'here' })
  mkdirSync(join(it.roots.work, 'folder'))
  writeFileSync(join(it.roots.work, 'file'), '')
  for (const [line, live, offers] of [
    ...OFFERS(session),
    ['pohunek session new --cwd f', false, ['folder']] as [string, boolean, string[]],
  ]) {
    const words = line.split(' ')
    const script = `set -u; source <(pohunek completions bash ${live ? '--dynamic' : ''})
      COMP_WORDS=(${words.map((word) => `'${word}'`).join(' ')}); COMP_CWORD=${words.length - 1}; _pohunek
      printf '%s\\n' "\${COMPREPLY[@]}"`
    const { stdout, stderr } = await run(find('bash') as string, ['--norc', '-c', script], {
      cwd: it.roots.work,
      env: environment(it),
    })
    expect({ line, live, stderr, offers: stdout.split('\n').filter(Boolean).sort() }).toEqual({
      line,
      live,
      stderr: '',
      offers,
    })
  }
})

test.skipIf(find('fish') === undefined)('fish', async () => {
  const it = await world()
  const session = await it.sh('sleep 60', { name: 'here' })
  mkdirSync(join(it.roots.work, 'folder'))
  for (const [line, live, offers] of [
    ...OFFERS(session),
    ['pohunek session new --cwd f', false, ['folder/']] as [string, boolean, string[]],
    ['pohunek --no', false, ['--no-start']] as [string, boolean, string[]],
  ]) {
    const script = `pohunek completions fish ${live ? '--dynamic' : ''} | source; complete -C '${line}'`
    const { stdout, stderr } = await run(find('fish') as string, ['--no-config', '-c', script], {
      cwd: it.roots.work,
      env: environment(it),
    })
    const found = stdout.split('\n').map((row) => row.split('\t')[0] as string)
    expect({ line, live, stderr, offers: found.filter(Boolean).sort() }).toEqual({ line, live, stderr: '', offers })
  }
})

test.skipIf(find('zsh') === undefined)('zsh, at its prompt', async () => {
  const it = await world()
  const session = await it.sh('sleep 60', { name: 'here' })
  mkdirSync(join(it.roots.work, 'folder'))
  writeFileSync(
    join(it.roots.home, '.zshrc'),
    [
      'PS1="> "; unsetopt beep list_beep auto_menu',
      'autoload -Uz compinit; compinit -u -D',
      'source <(pohunek completions zsh --dynamic); echo zsh-is-ready',
    ].join('\n'),
  )
  const outer = new Outer(find('zsh') as string, ['-i'], {
    cwd: it.roots.work,
    env: { ...environment(it), ZDOTDIR: it.roots.home },
    cols: 120,
  })
  it.keep({ close: () => outer.dispose() })
  await outer.until('zsh-is-ready')
  /** Types a line and Tab on an empty screen; Ctrl-U and Ctrl-L clear it again. */
  const typed = async (line: string, shows: string | ((screen: string) => unknown)): Promise<void> => {
    outer.write(`\x15\x0c${line}\t`)
    await outer.until(shows)
  }
  await typed('pohunek ses', '> pohunek session ')
  await typed('pohunek session sto', '> pohunek session stop ')
  await typed('pohunek --host local session sto', '> pohunek --host local session stop ')
  await typed('pohunek session new --na', '> pohunek session new --name ')
  await typed('pohunek session read x --format a', '--format ansi ')
  await typed('pohunek session new --cwd f', '--cwd folder/')
  await typed('pohunek attach s-', `> pohunek attach ${session.id} `)
  await typed('pohunek session stop --json s-', `> pohunek session stop --json ${session.id} `)
  // Several: they are listed with what they do.
  await typed('pohunek daemon st', (screen) => /status +-- show whether a local daemon runs/.test(screen))
  await typed('pohunek completions ', (screen) => ['bash', 'zsh', 'fish'].every((it) => screen.includes(it)))
  outer.write('\x15exit\r')
  expect(await outer.ended()).toBe(0)
})

test.skipIf(find('bash') === undefined)('bash: a name of several words is written as the shell reads it', async () => {
  const it = await world()
  await it.sh('sleep 60', { name: "it's my work" })
  await it.sh('sleep 60', { name: 'a:b=c' })
  await it.sh('sleep 60', { name: 'twin' })
  await it.sh('sleep 60', { name: 'twin' })
  const outer = new Outer(find('bash') as string, ['--norc', '-i'], {
    cwd: it.roots.work,
    env: { ...environment(it), PS1: '> ', HISTFILE: '/dev/null' },
    cols: 120,
  })
  it.keep({ close: () => outer.dispose() })
  outer.write('source <(pohunek completions bash --dynamic); echo bash-is-"ready"\r')
  await outer.until('bash-is-ready')
  const typed = async (line: string, shows: string): Promise<void> => {
    outer.write(`\x15\x0c${line}\t`)
    await outer.until(shows)
  }
  await typed('pohunek attach it', String.raw`> pohunek attach it\'s\ my\ work `)
  await typed(String.raw`pohunek attach it\'s\ m`, String.raw`> pohunek attach it\'s\ my\ work `)
  await typed(`pohunek attach "it's m`, `> pohunek attach "it's my work" `)
  await typed('pohunek session inspect a', String.raw`> pohunek session inspect a\:b\=c `)
  outer.write('\x15\x0cpohunek session inspect a\t\r')
  await outer.until((screen) => /name +a:b=c/.test(screen))
  // Two sessions share it: it means neither.
  outer.write('\x15\x0cpohunek attach tw\t')
  await outer.until('> pohunek attach tw')
  outer.write('x')
  await outer.until('> pohunek attach twx')
  outer.write('\x15exit\r')
  await outer.ended()
})

test('no such shell', async () => {
  const it = await world({ daemon: false })
  expect((await it.cli(['completions', 'tcsh'])).code).toBe(2)
})
