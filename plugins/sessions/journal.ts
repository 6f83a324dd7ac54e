/**
 * Reads what workers wrote about themselves (contract/environment.md §5): evidence for a worker that cannot be asked
 * any more. Journals of this release and of the one before are read; of any other nothing is believed.
 */
import { messageOf } from '../../protocol/fault.ts'
import { readdirSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import * as v from 'valibot'
import type { VersionRange } from '../../protocol/version.ts'
import { readPrivate } from '../../kernel/secure-files.ts'
import type { ProcessIdentity, Processes } from '../../platform/processes.ts'
import { JOURNAL_PHASES, READABLE_JOURNAL_SCHEMAS } from '../../protocol/worker/files.ts'
import type { ChildExit } from '../../protocol/worker/messages.ts'
import type { SessionRecord } from './record.ts'

const MAX_JOURNAL_BYTES = 1_048_576
const text = v.pipe(v.string(), v.minLength(1))
const Nullish = <S extends v.GenericSchema>(schema: S) => v.optional(v.nullable(schema))

const Journal = v.object({
  schema_version: v.picklist(READABLE_JOURNAL_SCHEMAS),
  session_id: text,
  worker_id: text,
  generation: v.union([v.number(), v.string()]),
  runtime_id: Nullish(text),
  worker_pid: v.number(),
  worker_start_identity: v.string(),
  worker_version: Nullish(v.string()),
  boot_id: Nullish(v.string()),
  worker_protocol: Nullish(v.object({ minimum: v.number(), maximum: v.number() })),
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
  /** Versions of the private protocol the worker speaks; undefined when it did not write them. */
  readonly protocol: VersionRange | undefined
  readonly phase: v.InferOutput<typeof Journal>['phase']
  /** Set when the end of the root process was observed; the phase says whether the whole runtime is proven to be over. */
  readonly exit: ChildExit | undefined
}

/** Why the journals of a session cannot be used as evidence, naming the file. */
export interface Unreadable {
  readonly unreadable: string
  /** The journal is of a release whose journals are not read: the worker that wrote it, and its schema. */
  readonly foreign?: { readonly workerId: string; readonly schema: number }
}
export type Journals = readonly WorkerJournal[] | Unreadable

/** All journals of a session, or why they are no evidence: a missing directory is no journal. */
export function readJournals(directory: string, sessionId: string): Journals {
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
      const raw: unknown = JSON.parse(bytes.toString('utf8'))
      const schema = schemaOf(raw)
      if (schema !== undefined && !READABLE_JOURNAL_SCHEMAS.some((it) => it === schema)) {
        const workerId = name.slice(0, -'.json'.length)
        return { unreadable: `${path} has schema ${schema}, ${READS}`, foreign: { workerId, schema } }
      }
      const journal = v.parse(Journal, raw)
      if (journal.session_id !== sessionId) return { unreadable: `${path} belongs to another session` }
      journals.push(toJournal(journal))
    } catch (failure) {
      return { unreadable: `${path}: ${messageOf(failure)}` }
    }
  }
  return journals
}

const READS = `this daemon reads ${READABLE_JOURNAL_SCHEMAS.join(' and ')}`

const schemaOf = (raw: unknown): number | undefined =>
  typeof raw === 'object' && raw !== null && 'schema_version' in raw && typeof raw.schema_version === 'number'
    ? raw.schema_version
    : undefined

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
    protocol: raw.worker_protocol ?? undefined,
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

/** Those of `journals` whose worker still runs: exactly that process, of this boot. */
export const withRunningWorker = (
  journals: readonly WorkerJournal[],
  processes: Pick<Processes, 'bootId' | 'isRunning'>,
): WorkerJournal[] => {
  const bootId = processes.bootId()
  return journals.filter((it) => ofBoot(it, bootId) && processes.isRunning(it.worker))
}

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

/** Pure. Whether a journal is the one of the recorded worker and its runtime. */
export const isOfRecord = (worker: SessionRecord['worker'], journal: WorkerJournal): boolean =>
  journal.workerId === worker.worker_id &&
  journal.generation === worker.generation &&
  journal.worker.pid === worker.process.pid &&
  journal.worker.startIdentity === worker.process.start_identity &&
  (worker.runtime_id === undefined || journal.runtimeId === undefined || journal.runtimeId === worker.runtime_id)

export type JournalProblem =
  | { found: 'conflict'; reason: 'worker_journal_identity_mismatch' | 'multiple_worker_candidates'; problem: string }
  | { found: 'incompatible'; reason: 'worker_protocol_incompatible' | 'worker_marker_legacy'; problem: string }

/**
 * What journals and the processes that run say against a worker that lives. Damaged journals say nothing; one of a release
 * whose journals are not read says that its worker is not to be managed.
 */
export function journalProblem(
  worker: SessionRecord['worker'],
  journals: Journals,
  processes: Pick<Processes, 'bootId' | 'isRunning'>,
): JournalProblem | undefined {
  if ('unreadable' in journals) {
    if (journals.foreign?.workerId !== worker.worker_id) return undefined
    return { found: 'incompatible', reason: 'worker_protocol_incompatible', problem: journals.unreadable }
  }
  const own = journals.find((it) => it.workerId === worker.worker_id)
  if (own !== undefined && !isOfRecord(worker, own)) {
    return {
      found: 'conflict',
      reason: 'worker_journal_identity_mismatch',
      problem: 'the journal of the recorded worker names another generation, process or runtime',
    }
  }
  const [rival] = withRunningWorker(
    journals.filter((it) => it !== own && it.generation === worker.generation),
    processes,
  )
  if (rival !== undefined) {
    return {
      found: 'conflict',
      reason: 'multiple_worker_candidates',
      problem: `process ${rival.worker.pid} runs as a worker of the same generation`,
    }
  }
  if (own !== undefined && !marksChildren(own)) {
    return {
      found: 'incompatible',
      reason: 'worker_marker_legacy',
      problem: `the worker is of release ${own.version ?? 'unknown'}, which marks nothing it starts`,
    }
  }
  return undefined
}
