/** Which process that tells nothing can belong to a worker. */
import { expect, test } from 'vitest'
import { isStranger } from '../../platform/linux/kinship.ts'
import type { Stat } from '../../platform/linux/proc.ts'

const process = (parent: number, session: number, start: number): Stat => ({
  command: 'x',
  state: 'S',
  parent,
  session,
  group: session,
  foreground: -1,
  startIdentity: String(start),
})
const table: Record<number, Stat> = {
  1: process(0, 1, 1),
  5: process(1, 5, 5), // adopts orphans, as a user manager does
  6: process(5, 6, 6), // a shell that is older than the worker
  7: process(5, 7, 7), // a daemon that starts workers
  8: process(5, 8, 8), // another service
  20: process(7, 20, 20), // the worker
  21: process(20, 21, 21), // its program
  30: process(21, 21, 30), // below the program
  31: process(5, 31, 31), // an orphan in a session of its own
  32: process(1, 32, 32), // the same, adopted by init
  33: process(6, 6, 33), // below the shell
  34: process(5, 6, 34), // an orphan in the shell's session
  35: process(8, 35, 35), // below the other service, in a session of its own
  36: process(33, 36, 36), // below what is below the shell, in a session of its own
  37: process(5, 99, 37), // an orphan whose session has lost its leader
  38: process(5, 98, 38), // the same, in a session that has a member older than the worker
  9: process(5, 98, 9),
  39: process(38, 39, 39), // below that orphan, in a session of its own
  40: process(5, 97, 40), // in a session that all of its members joined after the worker's start
  41: process(5, 97, 41),
}
const pids = Object.keys(table).map(Number)
const read = (pid: number): Stat | undefined => table[pid]
const worker = { pid: 20, startIdentity: '20' }

test.each([
  [30, false],
  [31, false],
  [32, false],
  [33, true],
  [34, true],
  [35, true],
  [36, true],
  [37, false],
  [38, true],
  [39, true],
  [40, false],
])('beside a worker that runs, %i is a stranger: %s', (pid, is) =>
  expect(isStranger(pid, worker, { read, pids: () => pids })).toBe(is),
)

test.each([
  [31, false],
  [33, true],
  [34, true],
  [35, false], // who adopts the orphans of a worker that is gone is not known
  [36, true],
  [38, true],
  [39, true],
  [40, false],
])('beside a worker that is gone, %i is a stranger: %s', (pid, is) =>
  expect(isStranger(pid, worker, { read: (it) => (it === 20 ? undefined : read(it)), pids: () => pids })).toBe(is),
)

test('who is above the worker and of one clock tick with it disproves nothing', () => {
  const twins: Record<number, Stat> = {
    ...table,
    7: process(5, 5, 20), // the daemon, started in the worker's tick and in an older session
    31: process(7, 31, 31), // an orphan of the worker that the daemon adopted
  }
  const read = (pid: number): Stat | undefined => twins[pid]
  expect(isStranger(31, worker, { read, pids: () => Object.keys(twins).map(Number) })).toBe(false)
})
