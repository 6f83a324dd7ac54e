/** The inbox of a real daemon: its command line, SIGKILL at any step, and a session that ends badly. */
import { chmodSync, existsSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, test, type TestContext } from 'vitest'
import { NOTIFICATION_CRASH_POINTS } from '../../platform/crash-points.ts'
import { inCrashWorld, type CrashWorld } from '../harness/crash.ts'
import { until } from '../harness/wait.ts'
import type { Answer } from '../harness/wire.ts'
import { world, type World } from '../harness/world.ts'

const SESSION = 's-somewhere'
const report = (more: Record<string, unknown> = {}) => ({
  source: { provider: 'claude', provider_event: 'Notification', host_local_source_id: 'h' },
  kind: 'approval_required',
  severity: 'action_required',
  title: 'Claude needs you',
  body: 'Bash: make',
  session_id: SESSION,
  dedupe_key: `attention:${SESSION}`,
  ...more,
})

const list = async (w: World): Promise<Answer[]> => (await w.call('notification.list')).notifications

async function debounce(w: World, secs: number): Promise<void> {
  const { policy } = await w.call('notification.policy.get')
  await w.call('notification.policy.set', { policy: { ...policy, attention_debounce_secs: secs } })
}

test('a held report survives SIGKILL of the daemon and is told once', async () => {
  const w = await world()
  await debounce(w, 1)
  const { created, record } = await w.call('notification.create', report())
  expect(created).toBe(true)
  expect(await list(w)).toEqual([])
  await w.crash()
  expect(await until('it is in the inbox', async () => (await list(w))[0])).toEqual(record)
  // It is listed a moment before it is durable; a daemon that dies in between holds it for another window.
  const log = join(w.roots.data, 'pohunek/notifications/notifications.jsonl')
  await until('it is written', () => readFileSync(log, 'utf8').includes(record.id))
  await w.crash()
  expect(await list(w)).toEqual([record])
})

describe.concurrent('SIGKILL at each step of a report', () => {
  test.for(NOTIFICATION_CRASH_POINTS)('%s', { timeout: 120_000 }, async (at, context: TestContext) => {
    await inCrashWorld(
      context,
      async (w) => {
        const told = channel(w)
        await w.startDying(at)
        await debounce(w, 1)
        await w.call('notification.create', report()).catch(() => undefined)
        await w.dies()
        await w.startDying()
        await until('it is in the inbox', async () => (await list(w)).length === 1)
        await until('it is announced', () => told().length > 0)
        // At least once: the command may have heard of it just when the daemon died. The next one says which time it is.
        const attempts = told().map((it) => (JSON.parse(it) as { attempt?: number }).attempt ?? 1)
        expect([[1], [2], [1, 2]]).toContainEqual(attempts)
        await w.call('notification.create', report())
        expect(await list(w)).toHaveLength(1)
        expect(w.files('data').filter((it) => it.includes('quarantine'))).toEqual([])
      },
      { config: `[workers]\nspares = 0\n[notify]\ncommand = ["/bin/sh", "-c", 'exec "$XDG_RUNTIME_DIR/notify"']\n` },
    )
  })

  const FAILED = ['notify.held', 'notify.committed'] as const
  test.for(FAILED)('of a turn that failed: %s', { timeout: 120_000 }, async (at, context: TestContext) => {
    await inCrashWorld(context, async (w) => {
      await w.startDying(at)
      await debounce(w, 1)
      const says = (state: string): string => `printf '\\033]7501;state=${state}:app=it\\033\\\\'`
      const session = await w.sh(`${says('working')}; echo at work; read go; ${says('error')}; echo failed; read more`)
      await session.untilScreen('at work')
      await until('it works', async () => (await session.info()).activity === 'working')
      const { cursor } = await w.call('session.wait_turn', { session_ids: [session.id], timeout_ms: 1 })
      await session.input('go')
      await w.dies()
      await w.startDying()
      const ended = { session_ids: [session.id], kinds: ['turn_completed'], after: cursor, timeout_ms: 30_000 }
      expect(await w.call('session.wait_turn', ended)).toMatchObject({ event: { kind: 'turn_completed' } })
      expect((await list(w)).map((it) => it.kind)).toEqual(['error'])
    })
  })

  /** The command of the configuration above: appends what it is told to a file. */
  function channel(w: CrashWorld): () => string[] {
    const path = join(w.roots.runtime, 'notify')
    const out = join(w.roots.work, 'told')
    writeFileSync(path, `#!/bin/sh\ncat >> '${out}'\n`)
    chmodSync(path, 0o755)
    // Whole lines: the file is there before the command has written.
    return () => (existsSync(out) ? readFileSync(out, 'utf8').split('\n').slice(0, -1) : [])
  }
})

test('the command line: list, read, ack, archive, delete, policy, prune, watch', { timeout: 60_000 }, async () => {
  const w = await world()
  const ok = async (...args: string[]): Promise<Answer> => {
    const { code, stdout, stderr } = await w.cli(['notifications', ...args, '--json'])
    expect([args, code, stderr]).toEqual([args, 0, ''])
    return JSON.parse(stdout).ok
  }
  const code = async (...args: string[]): Promise<[number | null, string]> => {
    const { code: exit, stdout } = await w.cli(['notifications', ...args, '--json'])
    return [exit, JSON.parse(stdout).err.code]
  }
  expect(await ok('list')).toEqual([])
  const watching = w.terminal(['notifications', 'watch'])
  const following = w.terminal(['notifications', 'watch', '--json'])
  await until('both watch', async () => (await w.call('daemon.health')).status === 'ok')
  const ids: string[] = []
  const create = async (more: Record<string, unknown>): Promise<void> => {
    ids.push((await w.call('notification.create', report({ dedupe_key: undefined, ...more }))).record.id)
  }
  await create({ title: 'a\u001b[2Jb', body: '\u001b]52;c;x\u0007' })
  await create({
    kind: 'error',
    severity: 'error',
    source: { provider: 'cron', provider_event: 'e', host_local_source_id: 'x' },
  })
  await until('the watchers saw one', async () => {
    await create({ kind: 'error', severity: 'error', title: 'tick' })
    return watching.raw.includes('tick') && following.raw.includes('notification_created')
  })
  const [first, second] = ids as [string, string]

  const { stdout, code: listed } = await w.cli(['notifications', 'list', '--session', SESSION])
  expect(listed).toBe(0)
  expect(stdout.split('\n')[0]).toMatch(/^HOST +STATUS +SEVERITY +AGE +SESSION +KIND +TITLE +ID$/)
  expect(stdout).toMatch(
    new RegExp(`local +unread +action_required +\\d+[sm] +${SESSION} +approval_required +ab +${first}`),
  )
  expect((await ok('list', '--provider', 'cron')).map((it: Answer) => it.id)).toEqual([second])
  expect(await ok('list', '--agent', 'nobody')).toEqual([])
  const [page] = await ok('list', '--all-hosts', '--limit', '1')
  expect(page.host).toBe('local')
  expect((await ok('list', '--cursor', page.id)).map((it: Answer) => it.id)).not.toContain(page.id)

  expect((await ok('read', first)).record.status).toBe('read')
  expect((await ok('ack', `local/${first}`)).record.status).toBe('acknowledged')
  expect((await ok('archive', first)).record.status).toBe('archived')
  expect(await code('read', first)).toEqual([1, 'invalid_notification_transition'])
  expect(await code('read', 'n-nope')).toEqual([1, 'notification_not_found'])
  expect(await code('read', `elsewhere/${first}`)).toEqual([1, 'host_unknown'])
  expect((await ok('list', '--unread')).map((it: Answer) => it.id)).not.toContain(first)
  expect(await ok('delete', first)).toEqual({ id: first, deleted: true })
  expect((await ok('list', '--status', 'deleted')).map((it: Answer) => it.id)).toEqual([first])

  const { policy } = await ok('policy', 'get')
  expect(policy.enabled.system).toBe(false)
  expect((await ok('policy', 'set', '--kind', 'system', '--enabled')).policy.enabled.system).toBe(true)
  const forClaude = await ok('policy', 'set', '--provider', 'claude', '--kind', 'error', '--disabled')
  expect([forClaude.policy.providers.claude.error, forClaude.policy.enabled.error]).toEqual([false, true])
  expect((await w.cli(['notifications', 'policy', 'get'])).stdout).toMatch(/KIND +DEFAULT +CLAUDE/)

  const dry = await ok('retention', 'prune', '--dry-run', '--status', 'unread')
  expect(dry.pruned).toContain(second)
  expect((await ok('retention', 'prune', '--apply', '--status', 'unread')).pruned).toEqual(dry.pruned)
  expect(await ok('list')).toEqual([])
  for (const args of [
    ['retention', 'prune'],
    ['retention', 'prune', '--dry-run', '--apply'],
    ['policy', 'set', '--kind', 'system'],
    ['policy', 'set', '--kind', 'nope', '--enabled'],
    ['list', '--unread', '--status', 'read'],
    ['list', '--limit', '0'],
    ['read'],
  ]) {
    expect([args, (await w.cli(['notifications', ...args])).code]).toEqual([args, 2])
  }
  expect(following.raw.includes('\u001b[2J')).toBe(false)
})

test('a session that fails leaves an error; one that was stopped nothing', async () => {
  const w = await world()
  const failing = await w.sh('exit 3')
  await failing.ended()
  const [error] = await until('the error is in the inbox', async () => {
    const found = await list(w)
    return found.length > 0 ? found : undefined
  })
  expect(error).toMatchObject({
    kind: 'error',
    source: { provider: 'pohunek' },
    session_id: failing.id,
    metadata: { reason: 'exit_code=3' },
  })
  const stopped = await w.sh('sleep 1000')
  await stopped.stop()
  await stopped.ended()
  expect(await list(w)).toEqual([error])
  await failing.remove()
  expect(await list(w)).toEqual([error])
})

test('FC-f68e: doctor tells of a notify command that fails, and the inbox goes on', async () => {
  const w = await world({ config: '[notify]\ncommand = ["/nonexistent/notify"]\n' })
  await w.call('notification.create', report({ dedupe_key: undefined }))
  const { report: told } = await until('doctor tells', async () => {
    const answer = await w.call('daemon.doctor')
    const check = answer.report.checks.find((it: Answer) => it.name === 'notify_command')
    return check?.status === 'warn' ? answer : undefined
  })
  expect(told.overall).not.toBe('fail')
  expect(await list(w)).toHaveLength(1)
})
