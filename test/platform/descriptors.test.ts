import { execFileSync } from 'node:child_process'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { inherited } from '../../platform/linux/descriptors.ts'
import { bundle } from './fixtures/bundle.ts'
import { temporary } from './fixtures/temporary.ts'

test('descriptors of the starter are closed, our own and the wanted ones stay', () => {
  const directory = temporary()
  writeFileSync(join(directory, 'lock'), '')
  const entry = bundle(
    `
    import { closeSync, openSync, fstatSync } from 'node:fs'
    import { closeInherited } from './platform/index.ts'
    const closed = closeInherited([8])
    const own = openSync('/dev/null')
    const open = [8, own].filter((fd) => { try { fstatSync(fd); return true } catch { return false } })
    console.log(JSON.stringify({ closed, open: open.map((fd) => (fd === own ? 'own' : fd)) }))`,
    join(directory, 'entry.mjs'),
  )
  const out = execFileSync('sh', ['-c', `exec 8<lock 9<lock 7>&1; exec ${process.execPath} ${entry}`], {
    cwd: directory,
  })
  const { closed, open } = JSON.parse(out.toString()) as { closed: number[]; open: unknown[] }
  expect(open).toEqual([8, 'own'])
  expect(closed).toEqual(expect.arrayContaining([7, 9]))
  expect(closed).not.toContain(8)
})

test.each([
  [{ target: '/home/u/lock', closeOnExec: true }, true],
  [{ target: '/dev/pts/3', closeOnExec: true }, true],
  [{ target: 'socket:[1]', closeOnExec: true }, true],
  [{ target: 'pipe:[1]', closeOnExec: true }, true],
  [{ target: 'pipe:[2]', closeOnExec: false }, true],
  [{ target: '/dev/null', closeOnExec: false }, true],
  [{ target: '/dev/null', closeOnExec: true }, false],
  [{ target: 'anon_inode:[eventpoll]', closeOnExec: true }, false],
  [{ target: 'pipe:[both]', closeOnExec: true }, false],
])('%j is inherited: %s', (it, is) => {
  const others = ['pipe:[both]', 'pipe:[both]'].map((target, index) => ({ fd: 90 + index, target, closeOnExec: true }))
  expect(inherited([{ fd: 3, ...it }, ...others])).toEqual(is ? [3] : [])
})

test('importing the platform loads no native code', () => {
  const entry = bundle(
    `
    import { readFileSync } from 'node:fs'
    import { processes } from './platform/index.ts'
    processes.identify(process.pid)
    processes.signal({ pid: process.pid, startIdentity: '1' }, 'SIGTERM')
    console.log(/koffi/.test(readFileSync('/proc/self/maps', 'utf8')))`,
    join(temporary(), 'entry.mjs'),
  )
  expect(execFileSync(process.execPath, [entry]).toString()).toBe('false\n')
})
