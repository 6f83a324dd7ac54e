/** The attach client over a daemon that goes away: reconnecting, the same session, keys once, the terminal restored. */
import { mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, test } from 'vitest'
import { runs } from '../harness/processes.ts'
import { pause, stays, until } from '../harness/wait.ts'
import { world, type World } from '../harness/world.ts'

const count = (text: string, part: string): number => text.split(part).length - 1

function attachConf(w: World, text: string): void {
  mkdirSync(join(w.roots.config, 'pohunek'), { recursive: true, mode: 0o700 })
  writeFileSync(join(w.roots.config, 'pohunek/attach.conf'), text, { mode: 0o600 })
}

describe('FC-becc: the daemon is replaced under an attached client', () => {
  // Clients could not tell an update from a crash and dropped the user's terminal.
  test.each(['stop', 'kill'] as const)(
    '%s and start within 5 s: the client goes on, keys are delivered once',
    async (how) => {
      const w = await world()
      attachConf(
        w,
        'attach_reconnect_seconds=20\nattach_reconnect_interval_seconds=0.2\nattach_reconnect_max_attempts=50\n',
      )
      const session = await w.child(['lines_in'])
      await session.untilScreen('ready')
      const outer = w.terminal(['attach', session.id])
      await outer.until('ready')
      outer.write('before\r')
      await outer.until('got:before')

      await (how === 'stop' ? w.daemon.stop() : w.daemon.kill())
      outer.write('during\r')
      await stays('the client waits for the next daemon', 500, () => outer.exit === undefined)
      await w.start()

      await until('the client takes keys again', async () => {
        outer.write('after\r')
        await pause(250)
        return outer.screen().join('\n').includes('got:after')
      })
      await session.untilScreen('got:after')
      const output = (await session.output()).bytes.toString()
      expect(count(output, 'got:before')).toBe(1)
      // Delivered once, or refused visibly: never twice.
      expect(count(output, 'got:during')).toBeLessThanOrEqual(1)
      if (count(output, 'got:during') === 0) expect(outer.raw.toString()).toMatch(/reconnect|lost|dropped/i)

      outer.write('\x1d')
      expect(await outer.ended()).toBe(0)
    },
  )

  test('a daemon that stays away: the client says so, ends with its own code and gives the terminal back', async () => {
    const w = await world()
    attachConf(
      w,
      'attach_reconnect_seconds=1\nattach_reconnect_interval_seconds=0.2\nattach_reconnect_max_attempts=3\n',
    )
    const session = await w.child([
      'print',
      Buffer.from('\x1b[?1049h\x1b[?2004h\x1b[?1002h\x1b[?1006h\x1b[>1u').toString('hex'),
    ])
    await session.untilScreen('ready')
    const outer = w.terminal(['attach', session.id])
    await outer.until('ready')
    const worker = session.worker().pid
    await w.daemon.kill()
    process.kill(worker, 'SIGKILL')
    const code = await outer.ended(15_000)
    expect(code).not.toBe(0)
    const end = outer.raw.toString().slice(-600)
    for (const reset of ['\x1b[?1049l', '\x1b[?2004l', '\x1b[?1002l', '\x1b[?1006l', '\x1b[<'])
      expect([reset, end.includes(reset)]).toEqual([reset, true])
    await until('the worker is gone', () => !runs(worker))
    await w.start()
    await until('the loss is told', async () => (await session.info()).runtime.state === 'lost')
  })

  test('the session ends while no daemon runs: the client reports its end', async () => {
    const w = await world()
    attachConf(
      w,
      'attach_reconnect_seconds=20\nattach_reconnect_interval_seconds=0.2\nattach_reconnect_max_attempts=50\n',
    )
    const session = await w.child(['lines_in'])
    await session.untilScreen('ready')
    const outer = w.terminal(['attach', session.id])
    await outer.until('ready')
    await w.daemon.kill()
    process.kill(session.pid, 'SIGKILL')
    await until('the program is gone', () => !runs(session.pid))
    await w.start()
    await outer.ended(20_000)
    const info = await session.ended()
    expect(info.state).toBe('failed')
  })
})

test('attach, type, resize and detach in a real terminal; the session goes on', async () => {
  const w = await world()
  const session = await w.child(['lines_in'], { name: 'work' })
  await session.untilScreen('ready')
  const outer = w.terminal(['attach', 'work'], { cols: 90, rows: 25 })
  await outer.until('ready')
  await session.untilScreen('winch:90x25')
  outer.write('hello\r')
  await outer.until('got:hello')
  outer.resize(100, 30)
  await outer.until('winch:100x30')
  outer.write('\x1d')
  expect(await outer.ended()).toBe(0)
  expect(runs(session.pid)).toBe(true)
  const again = w.terminal(['attach', session.id], { cols: 100, rows: 30 })
  await again.until('got:hello')
  again.write('exit 3\r')
  expect(await again.ended()).toBe(3)
  expect(await session.ended()).toMatchObject({ exit_code: 3 })
})
