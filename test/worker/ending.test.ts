/** Which processes keep an end open, on a process table of the test's own. */
import { expect, test } from 'vitest'
import { systemClock } from '../../kernel/index.ts'
import { processes } from '../../platform/index.ts'
import type { MarkedSweep, ProcessIdentity } from '../../platform/processes.ts'
import { Ending } from '../../worker/end.ts'

const nobody = (pid: number): ProcessIdentity => ({ pid: 5_000_000 + pid, startIdentity: String(pid) })
const hidden = (pid: number): MarkedSweep['unreadable'][number] => ({ ...nobody(pid), command: 'su' })

/** An end whose looks at the table find what `at` says; answers what it tells, the looks it took and who was signalled. */
async function end(at: (look: number) => MarkedSweep['unreadable']) {
  let looks = 0
  const signalled: ProcessIdentity[] = []
  const ending = new Ending({
    processes: {
      ...processes,
      findMarked: () => ({ marked: [], unreadable: at(++looks) }),
      signal(target) {
        signalled.push(target)
        return 'gone'
      },
    },
    clock: systemClock,
    child: nobody(1),
    worker: nobody(2),
    runtimeId: 'r-1',
    graceMs: 30,
  })
  const left = await ending.sweep()
  return { left, looks, signalled }
}

test('a process that is withheld at every look is named, and never signalled', async () => {
  const { left, signalled } = await end(() => [hidden(7)])
  expect(left).toEqual([{ ...hidden(7), why: 'unreadable' }])
  expect(signalled).toEqual([])
})

test('one that a single look saw keeps nothing open, whenever that look was', async () => {
  // Another one at each look, as of a program that starts setuid programs all the time; none in the end.
  const { left, looks } = await end((look) => (look <= 12 ? [hidden(look)] : []))
  expect(left).toEqual([])
  expect(looks).toBe(13)
})

test('one that stays is named beside others that pass', async () => {
  const { left } = await end((look) => (look <= 12 ? [hidden(0), hidden(look)] : [hidden(0)]))
  expect(left).toEqual([{ ...hidden(0), why: 'unreadable' }])
})
