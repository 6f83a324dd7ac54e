/** Floods, slow clients and many sessions do not hurt the others. Bounds are wide: this is no benchmark. */
import { describe, expect, test } from 'vitest'
import { crowded } from '../harness/crowd.ts'
import { cpuMs, pssBytes, runs } from '../harness/processes.ts'
import type { Session } from '../harness/session.ts'
import { monotonicMs, pause, until } from '../harness/wait.ts'
import { world, type World } from '../harness/world.ts'

const MIB = 1024 * 1024

/** Milliseconds from a key to its echo, sorted. */
async function echoTimes(w: World, count: number): Promise<number[]> {
  const session = await w.child(['echo'])
  await session.untilScreen('ready')
  const attached = await session.attach()
  await attached.until('ready')
  const times: number[] = []
  for (let n = 0; n < count; n++) {
    attached.forget()
    const before = attached.bytes
    const start = monotonicMs()
    attached.write('k')
    await until('the echo', () => attached.bytes > before, { pollMs: 1 })
    times.push(monotonicMs() - start)
  }
  return times.sort((a, b) => a - b)
}
const median = (sorted: readonly number[]): number => sorted[Math.floor(sorted.length / 2)] ?? Number.NaN

test(
  'FC-e33b: a client that stops reading costs a bounded amount of memory and nobody else anything',
  { timeout: 60_000 },
  async () => {
    const w = await world()
    const session = await w.child(['flood'])
    const slow = await session.attach()
    slow.socket.pause()
    const direct = await session.attach({ direct: true })
    direct.socket.pause()
    const reader = await session.attach()
    const worker = session.worker().pid
    const peak = { worker: 0, daemon: 0 }
    const start = monotonicMs()
    let seen = 0
    while (monotonicMs() - start < 6_000) {
      peak.worker = Math.max(peak.worker, pssBytes(worker))
      peak.daemon = Math.max(peak.daemon, pssBytes(w.daemon.pid))
      seen = reader.bytes
      reader.forget()
      await pause(200)
    }
    expect(peak.worker).toBeLessThan(160 * MIB)
    expect(peak.daemon).toBeLessThan(160 * MIB)
    // The normal client got far more than any queue holds: it was not held back by the stalled ones.
    expect(seen).toBeGreaterThan(20 * MIB)
    const [first] = (await session.screen()).match(/n\d{9}/) ?? []
    await until('the screen goes on', async () => !(await session.screen()).includes(first ?? ''))

    // The stalled one is cut off, or gets a picture of now when it reads again.
    slow.socket.resume()
    await until('the stalled client is dropped or served', () => slow.ended || slow.bytes > 0)
    await session.stop()
  },
)

test('FC-99eb: one byte per write is coalesced, another session echoes under 100 ms', async () => {
  const w = await world()
  const drip = await w.child(['drip'])
  const follower = await drip.attach()
  let chunks = 0
  follower.socket.on('data', () => chunks++)
  await until('the drip runs', () => follower.bytes > 20_000)
  const times = await echoTimes(w, 40)
  expect(median(times)).toBeLessThan(100)
  expect(follower.bytes / chunks).toBeGreaterThan(20)
  await drip.stop()
})

test('a flood in one session leaves the keystrokes of another', async () => {
  const w = await world()
  const flood = await w.child(['flood'])
  const follower = await flood.attach()
  await until('the flood runs', () => follower.bytes > MIB)
  const times = await echoTimes(w, 40)
  expect(median(times)).toBeLessThan(100)
  await flood.stop()
})

describe('FC-4b1f: many sessions', () => {
  test(
    '40 idle ones cost almost no CPU and bounded memory, list is quick, they all end at once',
    { timeout: 120_000 },
    async () => {
      const w = await world()
      const count = 40
      const agent = w.profile('/bin/cat')
      const sessions: Session[] = []
      for (let n = 0; n < count; n += 4) {
        sessions.push(...(await Promise.all(Array.from({ length: 4 }, async () => await w.agent(agent)))))
      }
      const workers = sessions.map((it) => it.worker().pid)
      expect(new Set(workers).size).toBe(count)

      await pause(1_000)
      const cpu = (): number => [...workers, w.daemon.pid].reduce((sum, pid) => sum + cpuMs(pid), 0)
      const before = cpu()
      await pause(3_000)
      expect(cpu() - before).toBeLessThan(450) // 5 % of one core for all of them, timer granularity included

      const memory = workers.reduce((sum, pid) => sum + pssBytes(pid), 0)
      expect(memory / count).toBeLessThan(40 * MIB)

      const start = monotonicMs()
      expect((await w.call('session.list')).length).toBe(count)
      expect(monotonicMs() - start).toBeLessThan(500)

      const times = await echoTimes(w, 20)
      expect(median(times)).toBeLessThan(100)

      // The daemon finds all of them again.
      await w.crash()
      await until(
        'all are live',
        async () =>
          ((await w.call('session.list')) as { runtime: { state: string } }[]).filter(
            (it) => it.runtime.state === 'live',
          ).length >
          count - 1,
      )

      const ended = await Promise.all(
        sessions.map(async (it) => {
          const wire = await w.connect()
          const answer = await wire.call('session.remove', it.id, { deadlineMs: 60_000 })
          wire.close()
          return answer.removed as boolean
        }),
      )
      expect(ended.every(Boolean)).toBe(true)
      await until('no program is left', () => sessions.every((it) => !runs(it.pid)), { deadlineMs: 15_000 })
      await until('no worker is left', () => workers.every((pid) => !runs(pid)), { deadlineMs: 15_000 })
    },
  )
})

test('a subscriber that does not read is bounded and holds up nobody', async () => {
  const w = await world()
  const stuck = await w.events()
  stuck.wire.socket.pause()
  const session = await w.child(['idle'])
  const value = 'v'.repeat(4_000)
  for (let n = 0; n < 600; n++)
    await session.call('session.set_metadata', { metadata: { a: `${n}${value}`, b: value, c: value } })
  expect(pssBytes(w.daemon.pid)).toBeLessThan(200 * MIB)
  expect((await w.call('daemon.health')).status).toBe('ok')
})

test('FC-c89f: 20,000 ended sessions slow neither a start nor a list, and cost no more with time', async () => {
  const count = 20_000
  const { it, ids } = await crowded(count)
  // Its own time, not that of whatever else the machine does.
  expect(cpuMs(it.daemon.pid)).toBeLessThan(2_000)
  const page = (await it.call('session.list', { limit: 100, after: ids[count - 200] })) as { id: string }[]
  expect(page.map(({ id }) => id)).toEqual(ids.slice(count - 199, count - 99))
  const all = async (): Promise<number> => {
    let seen = 0
    for (let after: string | undefined; ;) {
      const found = (await it.call('session.list', { limit: 1_000, ...(after === undefined ? {} : { after }) })) as {
        id: string
      }[]
      if (found.length === 0) return seen
      seen += found.length
      after = found.at(-1)?.id
    }
  }
  expect(await all()).toBe(count)
  const before = pssBytes(it.daemon.pid)
  for (let n = 0; n < 3; n++) {
    const session = await it.sh('exit 3')
    expect(await session.ended()).toMatchObject({ exit_code: 3 })
  }
  const used = cpuMs(it.daemon.pid)
  expect(await all()).toBe(count + 3)
  expect(await all()).toBe(count + 3)
  expect(cpuMs(it.daemon.pid) - used).toBeLessThan(10_000)
  expect(before).toBeLessThan(300 * MIB)
  expect(pssBytes(it.daemon.pid)).toBeLessThan(before + 64 * MIB)
}, 120_000)
