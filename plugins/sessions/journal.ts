/**
 * Reads what workers wrote about themselves (contract/environment.md §5, schema 4): evidence for a worker that cannot
 * be asked any more.
 */
import { messageOf } from '../../protocol/fault.ts'
import { readdirSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import * as v from 'valibot'
import { readPrivate } from '../../kernel/secure-files.ts'
import type { ProcessIdentity } from '../../platform/processes.ts'
import { JOURNAL_PHASES, JOURNAL_SCHEMA } from '../../protocol/worker/files.ts'
import type { ChildExit } from '../../protocol/worker/messages.ts'

const MAX_JOURNAL_BYTES = 1_048_576
const text = v.pipe(v.string(), v.minLength(1))
const Nullish = <S extends v.GenericSchema>(schema: S) => v.optional(v.nullable(schema))

const Journal = v.object({
  schema_version: v.literal(JOURNAL_SCHEMA),
  session_id: text,
  worker_id: text,
  generation: v.union([v.number(), v.string()]),
  runtime_id: Nullish(text),
  worker_pid: v.number(),
  worker_start_identity: v.string(),
  worker_version: Nullish(v.string()),
  boot_id: Nullish(v.string()),
  phase: v.picklist(JOURNAL_PHASES),
  outcome: Nullish(
    v.object({
      exit_code: Nullish(v.number()),
      signal: Nullish(v.number()),
      exited_at: Nullish(v.union([v.number(), v.string()])),
      reason: Nullish(v.string()),
      output_force_closed: Nullish(v.boolean()),
    }),
  ),
})

export interface WorkerJournal {
  readonly workerId: string
  readonly generation: number
  readonly runtimeId: string | undefined
  readonly worker: ProcessIdentity
  /** Boot the start identity belongs to; releases before ours did not write it. */
  readonly bootId: string | undefined
  readonly version: string | undefined
  readonly phase: v.InferOutput<typeof Journal>['phase']
  /** Set when the end of the root process was observed; the phase says whether the whole runtime is proven to be over. */
  readonly exit: ChildExit | undefined
}

/** All journals of a session, or why they cannot be used as evidence, naming the file: a missing directory is no journal. */
export function readJournals(directory: string, sessionId: string): readonly WorkerJournal[] | { unreadable: string } {
  let names: string[]
  try {
    names = readdirSync(directory)
  } catch (failure) {
    return (failure as NodeJS.ErrnoException).code === 'ENOENT'
      ? []
      : { unreadable: `${directory}: ${(failure as Error).message}` }
  }
  const journals: WorkerJournal[] = []
  for (const name of names) {
    if (!name.endsWith('.json') || name.startsWith('.')) continue
    const path = join(directory, name)
    try {
      const bytes = readPrivate(path, MAX_JOURNAL_BYTES)
      if (bytes === undefined) continue
      const journal = v.parse(Journal, JSON.parse(bytes.toString('utf8')))
      if (journal.session_id !== sessionId) return { unreadable: `${path} belongs to another session` }
      journals.push(toJournal(journal))
    } catch (failure) {
      return { unreadable: `${path}: ${messageOf(failure)}` }
    }
  }
  return journals
}

/** Removes what a worker that was killed between write and rename left. Only for a worker that is proven gone. */
export function removeUnfinished(directory: string): void {
  try {
    for (const name of readdirSync(directory).filter((it) => it.endsWith('.json.tmp'))) rmSync(join(directory, name))
  } catch {
    // it goes with the session
  }
}

function toJournal(raw: v.InferOutput<typeof Journal>): WorkerJournal {
  const isOver = raw.phase === 'terminal' || raw.phase === 'faulted'
  const exit = isOver && raw.outcome != null ? toExit(raw.outcome) : undefined
  return {
    workerId: raw.worker_id,
    generation: Number(raw.generation),
    runtimeId: raw.runtime_id ?? undefined,
    worker: { pid: raw.worker_pid, startIdentity: raw.worker_start_identity },
    bootId: raw.boot_id ?? undefined,
    version: raw.worker_version ?? undefined,
    phase: raw.phase,
    exit,
  }
}

function toExit(outcome: NonNullable<v.InferOutput<typeof Journal>['outcome']>): ChildExit {
  const at = typeof outcome.exited_at === 'string' ? Date.parse(outcome.exited_at) : (outcome.exited_at ?? 0)
  return {
    ...(outcome.exit_code == null ? {} : { code: outcome.exit_code }),
    ...(outcome.signal == null ? {} : { signal: outcome.signal }),
    stopped_by_user: outcome.reason === 'stopped' || outcome.reason === 'stopped_by_user',
    exited_at_ms: at,
    output_force_closed: outcome.output_force_closed ?? false,
  }
}

/** Pure. False once the journal was written in another boot: its process ids mean nothing in this one. */
export const ofBoot = (journal: WorkerJournal, bootId: string): boolean =>
  journal.bootId === undefined || journal.bootId === bootId

const MARKING_SINCE = [0, 33, 1]

/**
 * Pure. Whether the worker marks what its program starts, so that a sweep can attribute it. Every worker that writes
 * its boot does; of those before, the releases since 0.33.1.
 */
export function marksChildren({ bootId, version }: WorkerJournal): boolean {
  if (bootId !== undefined) return true
  const numbers = /^(\d+)\.(\d+)\.(\d+)/
    .exec(version ?? '')
    ?.slice(1)
    .map(Number)
  if (numbers === undefined) return false
  for (const [at, since] of MARKING_SINCE.entries()) {
    const part = numbers[at] ?? 0
    if (part !== since) return part > since
  }
  return true
}
