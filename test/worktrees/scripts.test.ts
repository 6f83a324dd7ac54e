import { existsSync, mkdirSync, readdirSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { definePlugin } from '../../kernel/plugin.ts'
import { Sessions, type SessionService } from '../../plugins/sessions/api.ts'
import { until } from '../harness/wait.ts'
import type { Station } from '../sessions/station.ts'
import { branchOff, grove, read, type Repository } from './repository.ts'

/** A script that appends one line: who it is, where it runs and every variable but the shell's own. */
const noting = (log: string, who: string): string =>
  `echo "${who}|$(pwd)|$(env | grep -Ev '^(PWD|OLDPWD|SHLVL|_)=' | sort | tr '\\n' ' ')" >> '${log}'\n`

function hostHook(s: Station, event: string, text: string): void {
  const directory = join(s.roots.config, 'pohunek/hooks')
  mkdirSync(directory, { recursive: true, mode: 0o700 })
  writeFileSync(join(directory, event), text)
}
const repoHook = (repo: Repository, event: string, text: string): void => repo.write(`.pohunek/hooks/${event}`, text)
const linesOf = (log: string): string[] =>
  existsSync(log)
    ? readFileSync(log, 'utf8')
        .split('\n')
        .filter((it) => it !== '')
    : []

test('scripts of a tree run in order with a small environment', { timeout: 60_000 }, async () => {
  const { s, repo } = await grove({ env: { SECRET: 'from-the-daemon', GIT_DIR: '/nowhere' } })
  const log = join(s.roots.work, 'log')
  for (const event of ['pre-create', 'post-create', 'pre-remove', 'post-remove']) {
    hostHook(s, event, noting(log, 'host'))
    repoHook(repo, event, noting(log, 'repo'))
  }
  const info = await branchOff(s, repo, 'topic')
  const path = info.worktree_path as string
  expect(info.warnings).toBeUndefined()
  await s.call('session.remove', info.id)
  const told = linesOf(log).map((it) => it.split('|'))
  expect(told.map(([who, where, env]) => [who, where, /POHUNEK_HOOK_EVENT=(\S+)/.exec(env ?? '')?.[1]])).toEqual([
    ['host', repo.path, 'pre-create'],
    ['repo', repo.path, 'pre-create'],
    ['host', path, 'post-create'],
    ['repo', path, 'post-create'],
    ['host', path, 'pre-remove'],
    ['repo', path, 'pre-remove'],
    ['host', repo.path, 'post-remove'],
    ['repo', repo.path, 'post-remove'],
  ])
  const variables = Object.fromEntries(
    (told[2]?.[2] ?? '')
      .trim()
      .split(' ')
      .map((it) => it.split('=') as [string, string]),
  )
  expect(variables).toEqual({
    PATH: expect.any(String),
    HOME: expect.any(String),
    POHUNEK_HOOK_EVENT: 'post-create',
    POHUNEK_SESSION_ID: info.id,
    POHUNEK_PROJECT_ID: expect.stringMatching(/^p-[0-9a-f]{8}$/),
    POHUNEK_AGENT: 'shell',
    POHUNEK_REPO: repo.path,
    POHUNEK_WORKTREE: path,
    POHUNEK_BRANCH: 'topic',
    POHUNEK_BASE_BRANCH: 'main',
  })
})

test('the legacy setup file runs when there is no hook for it; both see the tree before the program does', async () => {
  const { s, repo } = await grove()
  repo.write('.pohunek/setup', 'echo ready > set-up\n')
  const one = await branchOff(s, repo, 'one')
  expect(read(one.worktree_path, 'set-up')).toBe('ready\n')
  repoHook(repo, 'post-create', 'echo hooked > hooked\n')
  const two = await branchOff(s, repo, 'two')
  expect(read(two.worktree_path, 'hooked')).toBe('hooked\n')
  expect(existsSync(join(two.worktree_path, 'set-up'))).toBe(false)
})

test('FC-4c19: what a failing script prints is kept nowhere', { timeout: 60_000 }, async () => {
  const { s, repo } = await grove()
  const shout = (status: number): string => `echo TOKEN=abc123; echo TOKEN=abc123 >&2; exit ${status}\n`
  repo.write('.pohunek/setup', shout(7))
  hostHook(s, 'pre-create', shout(3))
  hostHook(s, 'session-start', shout(4))
  hostHook(s, 'session-stop', shout(5))
  hostHook(s, 'post-remove', shout(6))
  const info = await branchOff(s, repo, 'topic')
  expect(info.warnings).toEqual([
    { kind: 'hook', message: 'host hook pre-create failed with exit status 3' },
    { kind: 'setup_script', message: '.pohunek/setup failed with exit status 7' },
  ])
  await s.call('session.stop', info.id)
  const seen = await until('the scripts of the session ran', async () => {
    const it = await s.call('session.inspect', info.id)
    return it.warnings.length === 4 ? it : undefined
  })
  expect(seen.warnings.slice(2).map((it: { message: string }) => it.message)).toEqual([
    'host hook session-start failed with exit status 4',
    'host hook session-stop failed with exit status 5',
  ])
  await s.call('session.remove', info.id)
  expect(s.log.some((it) => JSON.stringify(it.fields).includes('post-remove failed with exit status 6'))).toBe(true)
  expect(JSON.stringify(s.log)).not.toContain('abc123')
  for (const root of ['data', 'state', 'cache'] as const)
    for (const file of s.files(root).filter((it) => !it.endsWith('/') && !it.includes('worktrees/')))
      expect([file, readFileSync(join(s.roots[root], file)).includes('abc123')]).toEqual([file, false])
})

test('a script that leads outside of its folder, is a folder, or dies by a signal is a warning', async () => {
  const { s, repo } = await grove()
  const outside = join(s.roots.work, 'outside.sh')
  writeFileSync(outside, `touch '${join(s.roots.work, 'ran')}'\n`)
  repo.write('.pohunek/hooks/.keep', '')
  symlinkSync(outside, join(repo.path, '.pohunek/hooks/pre-create'))
  mkdirSync(join(repo.path, '.pohunek/hooks/post-create'))
  hostHook(s, 'post-create', 'kill -9 $$\n')
  const info = await branchOff(s, repo, 'topic')
  expect(info.warnings.map((it: { message: string }) => it.message)).toEqual([
    '.pohunek/hooks/pre-create is not run: it leads outside of its folder',
    'host hook post-create was ended by SIGKILL',
    '.pohunek/hooks/post-create is not run: it is no file',
  ])
  expect(readdirSync(s.roots.work)).not.toContain('ran')
})

test('sessions without a tree have scripts too, and hold nothing up', async () => {
  const { s } = await grove()
  const log = join(s.roots.work, 'log')
  const gate = join(s.roots.work, 'gate')
  hostHook(s, 'session-start', `while ! [ -e '${gate}' ]; do sleep 0.05; done\n${noting(log, 'start')}`)
  hostHook(s, 'session-stop', noting(log, 'stop'))
  const session = await s.sh('exit 3')
  await session.ended()
  writeFileSync(gate, '')
  await until('both ran', () => linesOf(log).length === 2)
  const [start = '', stop = ''] = linesOf(log)
  expect(start).toMatch(/^start\|.*POHUNEK_HOOK_EVENT=session-start/)
  expect(stop).toMatch(/^stop\|.*POHUNEK_STOP_REASON=failed/)
  expect(stop).not.toContain('POHUNEK_WORKTREE')
})

test('the script of a repository runs for a session that is only started in it', async () => {
  const { s, repo } = await grove()
  const log = join(s.roots.work, 'log')
  repoHook(repo, 'session-start', noting(log, 'repo'))
  hostHook(s, 'session-start', noting(log, 'host'))
  const { id } = await s.create({ cwd: repo.path })
  await until('both ran', () => linesOf(log).length === 2)
  const told = linesOf(log)
  expect(told.map((it) => it.split('|').slice(0, 2))).toEqual([
    ['host', repo.path],
    ['repo', repo.path],
  ])
  expect(told[1]).toContain(`POHUNEK_SESSION_ID=${id}`)
  expect(told[1]).toContain(`POHUNEK_REPO=${repo.path}`)
})

test('an activity that stays is told once, one that passes is not', async () => {
  let sessions: SessionService | undefined
  const observer = definePlugin({
    contract: { name: 'observer', methods: {}, events: {} },
    needs: { sessions: Sessions },
    setup({ needs }) {
      sessions = needs.sessions
      return { methods: {} }
    },
  })
  const { s } = await grove({ plugins: [observer] })
  const log = join(s.roots.work, 'log')
  hostHook(s, 'agent-state', noting(log, 'state'))
  const { id } = await s.create()
  const activity = (): (string | undefined)[] => linesOf(log).map((it) => /POHUNEK_ACTIVITY=(\w+)/.exec(it)?.[1])
  for (const it of ['working', 'idle', 'blocked', 'working'] as const) sessions?.show(id, { activity: it })
  await until('it was told', () => linesOf(log).length === 1)
  sessions?.show(id, { activity: 'idle' })
  await until('the next was told', () => linesOf(log).length === 2)
  expect(activity()).toEqual(['working', 'idle'])
})
