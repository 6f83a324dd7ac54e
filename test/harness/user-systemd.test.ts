/** The harness itself: what it leaves behind would be taken for a defect of the product. */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { existsSync, readFileSync, readdirSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { describe, expect, test } from 'vitest'
import { carrying, show } from './processes.ts'
import { REPOSITORY } from './roots.ts'
import { startUserSystemd } from './user-systemd.ts'
import { until } from './wait.ts'

const first = await startUserSystemd()
if (typeof first !== 'string') await first[Symbol.asyncDispose]()

describe.skipIf(typeof first === 'string')('user-systemd.sh', () => {
  test.each(['SIGKILL', 'SIGTERM', 'end of input'] as const)('leaves nothing behind: %s', async (how) => {
    const command = 'systemd-run --user -q sleep 86391; setsid sleep 86392 & echo $XDG_RUNTIME_DIR; exec cat'
    const child = spawn(join(REPOSITORY, 'test/harness/user-systemd.sh'), ['bash', '-c', command])
    let out = ''
    child.stdout.on('data', (bytes: Buffer) => (out += bytes.toString()))
    const base = dirname(await until('the manager', () => /^(.+)\n/.exec(out)?.[1]))
    expect(carrying(base).length).toBeGreaterThan(2)
    const ended = once(child, 'exit')
    if (how === 'end of input') child.stdin.end()
    else child.kill(how)
    await ended
    await until('everything is gone', () => !existsSync(base) && carrying(base).length === 0, {
      show: () => show(carrying(base)),
    })
    const cgroups = readFileSync('/proc/self/mountinfo', 'utf8')
    expect(cgroups).not.toContain(base)
    expect(readdirSync('/tmp').includes(base.slice('/tmp/'.length))).toBe(false)
  })

  test('tells the exit status of the command', async () => {
    const child = spawn(join(REPOSITORY, 'test/harness/user-systemd.sh'), ['bash', '-c', 'exit 7'], { stdio: 'ignore' })
    expect(await once(child, 'exit')).toEqual([7, null])
  })
})
