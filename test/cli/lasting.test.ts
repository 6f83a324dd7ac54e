/**
 * Commands that wait or follow while their daemon goes and the next one comes: they end as if nothing had happened, with
 * every event once. A real daemon each time, ended by SIGKILL in the middle of the command (or by SIGTERM, as an upgrade).
 */
import { spawn } from 'node:child_process'
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { describe, expect, test } from 'vitest'
import { bin } from '../harness/roots.ts'
import type { Session } from '../harness/session.ts'
import { until } from '../harness/wait.ts'
import { world, type World } from '../harness/world.ts'

function attachConf(w: World, bounds: { seconds: number; interval: number; attempts?: number }): void {
  mkdirSync(join(w.roots.config, 'pohunek'), { recursive: true, mode: 0o700 })
  const { seconds, interval, attempts = 20 } = bounds
  const text = `attach_reconnect_seconds=${seconds}\nattach_reconnect_interval_seconds=${interval}\nattach_reconnect_max_attempts=${attempts}\n`
  writeFileSync(join(w.roots.config, 'pohunek/attach.conf'), text, { mode: 0o600 })
}

/** The daemon's ends of connections that are open now, by inode. */
const connections = (w: World): string[] =>
  readFileSync('/proc/net/unix', 'utf8')
    .split('\n')
    .map((it) => it.trim().split(/\s+/))
    .filter((it) => it[7]?.startsWith(join(dirname(w.roots.socket), '.d')) === true && it[5] === '03')
    .map((it) => it[6] ?? '')
    .sort()

interface Running {
  stdout: string
  stderr: string
  code: number | null | undefined
  readonly ended: Promise<number | null>
  end(): void
}

function start(w: World, args: readonly string[], env: Record<string, string | undefined> = {}): Running {
  const child = spawn(bin('pohunek'), args, { cwd: w.roots.work, env: w.roots.env({ POHUNEK_NO_START: '1', ...env }) })
  const it: Running = {
    stdout: '',
    stderr: '',
    code: undefined,
    ended: new Promise((resolve) => child.once('close', resolve)),
    end: () => void child.kill('SIGKILL'),
  }
  void it.ended.then((code) => (it.code = code))
  child.stdout.on('data', (chunk: Buffer) => (it.stdout += chunk.toString()))
  child.stderr.on('data', (chunk: Buffer) => (it.stderr += chunk.toString()))
  w.keep({ close: () => it.end() })
  return it
}

/** Starts a command and waits until its last call waits at the daemon: two connections, the same ones for a while. */
async function waiting(w: World, args: readonly string[], env?: Record<string, string | undefined>): Promise<Running> {
  const before = connections(w)
  const it = start(w, args, env)
  let last = ''
  await until(
    'the command waits',
    () => {
      const now = connections(w).filter((inode) => !before.includes(inode))
      const same = now.join() === last
      last = now.join()
      if (it.code !== undefined) throw new Error(`it ended: ${it.stdout}${it.stderr}`)
      return same && now.length === 2
    },
    { pollMs: 60, show: () => `${last}\n${it.stdout}${it.stderr}` },
  )
  return it
}

interface Document {
  ok?: { cursor: string }
  err?: { code: string; recover: string }
}
const json = (text: string): Document => JSON.parse(text) as Document

/** A program that ends with 7 once `go` was called. */
async function held(w: World): Promise<{ session: Session; go: () => void }> {
  const file = join(w.roots.work, 'go')
  const session = await w.sh(`while [ ! -e ${file} ]; do sleep 0.05; done; exit 7`)
  return { session, go: () => writeFileSync(file, '') }
}

describe('session wait', () => {
  test.each([
    ['kill', 'during'],
    ['kill', 'after'],
    ['stop', 'during'],
  ] as const)('%s the daemon, an end %s the gap: told, with a cursor that goes on', async (how, when) => {
    const w = await world()
    const { session, go } = await held(w)
    const wait = await waiting(w, ['session', 'wait', session.id, '--timeout', '60s', '--json'])
    await (how === 'kill' ? w.daemon.kill() : w.daemon.stop())
    if (when === 'during') go()
    await until('the program is over, or the gap', () => when !== 'during' || !alive(session.pid))
    await w.start()
    if (when === 'after') go()
    expect([await wait.ended, wait.stderr]).toEqual([0, ''])
    const { ok } = json(wait.stdout)
    expect(ok).toMatchObject({ reason: 'event', event: { session_id: session.id, kind: 'exited' } })
    // Told once: behind its cursor there is nothing.
    const cursor = ok?.cursor ?? ''
    const next = await w.cli(['session', 'wait', session.id, '--after', cursor, '--timeout', '1ms', '--json'])
    expect(json(next.stdout)).toMatchObject({ ok: { reason: 'targets_ended' } })
  })

  test('a change: what is left of its time is waited for at the next daemon', async () => {
    const w = await world()
    const { session, go } = await held(w)
    const wait = await waiting(w, ['session', 'wait', session.id, '--state', 'failed', '--state', 'done', '--json'])
    await w.daemon.kill()
    go()
    await w.start()
    expect([await wait.ended, wait.stderr]).toEqual([0, ''])
    expect(json(wait.stdout)).toMatchObject({ ok: { reason: 'state_matched' } })
  })

  test('the daemon stays away: its code, where to go on, a word when it takes long, and no daemon is started', async () => {
    const w = await world()
    attachConf(w, { seconds: 3, interval: 0.2 })
    const { session, go } = await held(w)
    const wait = await waiting(w, ['session', 'wait', session.id, '--json'], { POHUNEK_NO_START: undefined })
    expect((await w.cli(['daemon', 'stop'])).code).toBe(0)
    expect(await wait.ended).toBe(1)
    expect(wait.stderr).toBe('note: the daemon is away; waiting up to 3 s for it\n')
    const { err } = json(wait.stdout)
    expect(err?.code).toBe('daemon_unreachable')
    expect(w.running('daemon')).toEqual([])
    // Its hint holds: an event from meanwhile is behind the cursor it names.
    const cursor = /--after (\S+)/.exec(err?.recover ?? '')?.[1] ?? ''
    go()
    await w.start()
    const next = await w.cli(['session', 'wait', session.id, '--after', cursor, '--json'])
    expect(json(next.stdout)).toMatchObject({ ok: { event: { kind: 'exited' } } })
  })

  test('--timeout bounds the whole, the time without a daemon included', async () => {
    const w = await world()
    const { session } = await held(w)
    const wait = await waiting(w, ['session', 'wait', session.id, '--timeout', '1500ms', '--json'])
    await w.daemon.kill()
    const startMs = performance.now()
    expect(await wait.ended).toBe(1)
    expect(performance.now() - startMs).toBeLessThan(4_000)
    expect(json(wait.stdout)).toMatchObject({ err: { code: 'daemon_unreachable' } })
    await w.start()
  })
})

const alive = (pid: number): boolean => {
  try {
    return !/^State:\s+Z/m.test(readFileSync(`/proc/${pid}/status`, 'utf8'))
  } catch {
    return false
  }
}

describe('session output --follow', () => {
  test.each([1, 3])('%d crashes: every byte once and in order, to the end', async (crashes) => {
    const w = await world()
    const file = join(w.roots.work, 'go')
    const session = await w.sh(`i=0; while [ ! -e ${file} ]; do i=$((i+1)); echo "line $i"; sleep 0.01; done; echo end`)
    const follow = start(w, ['session', 'output', session.id, '--follow'])
    for (let crash = 0; crash < crashes; crash++) {
      const seen = follow.stdout.length
      await until('more comes', () => follow.stdout.length > seen + 100, { show: () => follow.stderr })
      await w.daemon.kill()
      if (crash === crashes - 1) writeFileSync(file, '')
      await w.start()
    }
    expect([await follow.ended, follow.stderr]).toEqual([0, ''])
    const lines = follow.stdout.split('\r\n')
    expect(lines.slice(-2)).toEqual(['end', ''])
    const numbered = lines.slice(0, -2)
    expect(numbered).toEqual(numbered.map((_, at) => `line ${at + 1}`))
    expect(numbered.length).toBeGreaterThan(crashes * 8)
  })
})

interface Told {
  event: string
  notification_id?: string
  record?: { id: string; title: string; status: string }
}
const lines = (it: Running): Told[] =>
  it.stdout
    .split('\n')
    .filter((text) => text !== '')
    .map((text) => JSON.parse(text) as Told)

async function notice(w: World, title: string): Promise<string> {
  const source = { provider: 'test', provider_event: 'e', host_local_source_id: title }
  const { record } = await w.call('notification.create', {
    source,
    kind: 'error',
    severity: 'error',
    title,
    body: title,
  })
  return record.id as string
}

describe('notifications watch', () => {
  test('what changed before, in and after the gap is told once', async () => {
    const w = await world()
    // So long that the inbox surely changes before the watch is back.
    attachConf(w, { seconds: 20, interval: 1.5 })
    const [old, read, gone] = [await notice(w, 'old'), await notice(w, 'read'), await notice(w, 'gone')]
    const watch = await waiting(w, ['notifications', 'watch', '--json'])
    const before = await notice(w, 'before')
    await until('it is told', () => lines(watch).length > 0)
    await w.crash()
    const during = await notice(w, 'during')
    const passing = await notice(w, 'passing')
    await w.call('notification.update', { id: read, status: 'read' })
    await w.call('notification.delete', { id: gone })
    await w.call('notification.delete', { id: passing })
    expect(lines(watch)).toHaveLength(1)
    await until('it is back', () => lines(watch).length > 1, { show: () => watch.stderr })
    const after = await notice(w, 'after')
    await w.call('notification.update', { id: after, status: 'acknowledged' })
    const seen = (): string[] => lines(watch).map((it) => `${it.event} ${it.record?.title ?? it.notification_id ?? ''}`)
    await until('all is told', () => seen().at(-1) === 'notification_updated after', { show: seen })
    expect(seen()).toEqual([
      'notification_created before',
      'notification_updated read',
      'notification_created during',
      `notification_deleted ${gone}`,
      'notification_created after',
      'notification_updated after',
    ])
    expect(lines(watch).map((it) => it.record?.id)).toEqual([before, read, during, undefined, after, after])
    expect([watch.stderr, old === before]).toEqual(['', false])
    watch.end()
  })
})

describe('subscribe', () => {
  test('a gap line stands for the time without a daemon, and events go on', async () => {
    const w = await world()
    const subscribe = await waiting(w, ['subscribe'])
    const before = await w.sh('sleep 60')
    await until('the event is told', () => subscribe.stdout.includes(before.id))
    await w.crash()
    await until('the gap is told', () => lines(subscribe).some((it) => it.event === 'subscription_gap'))
    const after = await w.sh('sleep 60')
    await until('events go on', () => subscribe.stdout.includes(after.id))
    const told = lines(subscribe)
    const gap = told.findIndex((it) => it.event === 'subscription_gap')
    expect(told[gap]).toEqual({ v: 4, event: 'subscription_gap' })
    expect(told.filter((it) => it.event === 'subscription_gap')).toHaveLength(1)
    expect(told.slice(0, gap).some((it) => JSON.stringify(it).includes(before.id))).toBe(true)
    subscribe.end()
  })
})
