/**
 * Places where a test build ends its process, to prove what a crash there leaves. They are compiled in only when the
 * build defines POHUNEK_CRASH_POINTS; the shipped bundles hold neither the points nor their names.
 */
import { JOURNAL_PHASES, type JournalPhase } from '../protocol/worker/files.ts'

declare const POHUNEK_CRASH_POINTS: boolean | undefined

/** In the daemon, before and after each durable or external step. */
export const DAEMON_CRASH_POINTS = [
  'store.append.before',
  'store.append.unsynced',
  'store.append.after',
  'job.start.before',
  'job.start.recorded',
  'job.start.spawned',
  'job.start.identified',
  'job.start.ready',
  'job.start.after',
  'job.retire.before',
  'job.retire.ended',
  'job.retire.after',
  'worker.leased',
  'create.recorded',
  'create.directory',
  'create.prepared',
  'create.initialized',
  'create.committed',
  'create.input.written',
  'create.input.committed',
  'stop.before',
  'stop.recorded',
  'stop.answered',
  'stop.after',
  'change.before',
  'change.after',
  'remove.before',
  'remove.recorded',
  'teardown.stopped',
  'teardown.retired',
  'teardown.swept',
  'teardown.left',
  'purge.sockets',
  'purge.journals',
  'purge.after',
  'remove.forgotten',
  'adopt.listed',
  'adopt.asked',
  'adopt.taken',
  'adopt.after',
  'lost.swept',
  'lost.retired',
  'lost.recorded',
  'unrecorded.retired',
] as const

/** In the daemon, at each durable or external step of making, unmaking and removing a managed tree. */
export const WORKTREE_CRASH_POINTS = [
  'worktree.recorded',
  'worktree.branched',
  'worktree.added',
  'worktree.made',
  'worktree.undone',
  'worktree.rescued',
  'worktree.removed',
] as const

/** In a daemon that starts on a record log of an older schema, at each durable step of bringing it up. */
export const MIGRATION_CRASH_POINTS = [
  'migrate.before',
  'migrate.backup.staged',
  'migrate.backup.linked',
  'migrate.backup.after',
  'migrate.quarantined',
  'migrate.rewritten',
  'migrate.after',
] as const

/** In a daemon whose workers are units, beside `job.start.before` and `.recorded`: each question to the manager and its answer. */
export const UNIT_CRASH_POINTS = [
  'unit.start.asked',
  'unit.start.accepted',
  'unit.start.ended',
  'unit.start.identified',
  'unit.start.after',
  'unit.undo.before',
  'unit.undo.ended',
  'unit.undo.after',
  'unit.retire.before',
  'unit.stop.asked',
  'unit.stop.accepted',
  'unit.kill.asked',
  'unit.kill.answered',
  'unit.stop.ended',
  'unit.reset.asked',
  'unit.retire.ended',
  'unit.retire.after',
] as const

/** In the daemon, on the way of a report into the inbox and out to the notify command. */
export const NOTIFICATION_CRASH_POINTS = [
  'notify.held',
  'notify.told',
  'notify.committed',
  'notify.released',
  'notify.announced',
] as const

const JOURNAL_STEPS = ['worker.journal.before', 'worker.journal.staged', 'worker.journal.after'] as const
type JournalStep = (typeof JOURNAL_STEPS)[number]

const WORKER_POINTS = [
  'worker.socket.before',
  'worker.socket.after',
  'worker.ready',
  'worker.ready.told',
  'worker.initialize.begun',
  'worker.initialize.spawned',
  'worker.initialize.executed',
  'worker.initialize.after',
  'worker.stop.asked',
  'worker.end.exited',
  'worker.end.swept',
  'worker.end.told',
  'worker.leave',
] as const

/** In the worker: the start of the program, its end, and each journal write by its phase. */
export const workerCrashPoints = (): string[] => [
  ...WORKER_POINTS,
  ...JOURNAL_STEPS.flatMap((step) => JOURNAL_PHASES.map((phase) => `${step}.${phase}`)),
]

export type CrashPoint =
  | (typeof DAEMON_CRASH_POINTS)[number]
  | (typeof UNIT_CRASH_POINTS)[number]
  | (typeof MIGRATION_CRASH_POINTS)[number]
  | (typeof WORKTREE_CRASH_POINTS)[number]
  | (typeof NOTIFICATION_CRASH_POINTS)[number]
  | (typeof WORKER_POINTS)[number]

/** Ends this process with SIGKILL when POHUNEK_CRASH_AT=<name>[:<n>] names this point, at the n-th time. */
export function crashPoint(name: CrashPoint | JournalStep, phase?: JournalPhase): void {
  if (typeof POHUNEK_CRASH_POINTS !== 'undefined' && POHUNEK_CRASH_POINTS)
    reached(phase === undefined ? name : `${name}.${phase}`)
}

let passed = 0

function reached(name: string): void {
  const [wanted, nth = '1'] = (process.env['POHUNEK_CRASH_AT'] ?? '').split(':')
  if (wanted === name && ++passed === Number(nth)) process.kill(process.pid, 'SIGKILL')
}
