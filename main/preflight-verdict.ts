/**
 * What becomes of one session when this daemon replaces the one that runs. Pure: decided by the functions adoption uses,
 * on what the store, the worker's journal and the process table say. No worker is asked: the daemon that runs holds the
 * one place its controller has, so the supervisor's view of a job and a socket that fails are not known here.
 */
import type { Processes } from '../platform/processes.ts'
import { journalProblem, type Journals, type WorkerJournal } from '../plugins/sessions/journal.ts'
import { isOver, storedPhase } from '../plugins/sessions/machine.ts'
import type { SessionRecord } from '../plugins/sessions/record.ts'
import { selectVersion, type VersionRange } from '../protocol/version.ts'

/** Key spellings are the contract's (contract/cli.md); `code` and `detail` are null for what is adoptable. */
export interface SessionVerdict {
  readonly session_id: string
  readonly verdict: 'adoptable' | 'would_lose_recovery' | 'would_not_be_adopted'
  readonly code: string | null
  readonly detail: string | null
  readonly name?: string
}

type Judgement = Pick<SessionVerdict, 'verdict' | 'code' | 'detail'>

export interface Evidence {
  readonly journals: Journals
  readonly processes: Pick<Processes, 'isRunning' | 'bootId'>
  /** False when the system tells nothing about processes: then nothing can be proven. */
  readonly processTable: boolean
  /** Private protocol of this daemon. */
  readonly window: VersionRange
  readonly isServed: (runtimeId: string) => boolean
}

/** Workers that do not write what they speak are of the releases that spoke this. */
const UNWRITTEN: VersionRange = { minimum: 6, maximum: 7 }

const adoptable: Judgement = { verdict: 'adoptable', code: null, detail: null }
const notAdopted = (code: string, detail: string): Judgement => ({ verdict: 'would_not_be_adopted', code, detail })
const range = ({ minimum, maximum }: VersionRange): string => `${minimum}..=${maximum}`

/** Whether a record is of a session that is over, and of one that this or the next daemon undoes or removes anyway. */
export const isEnded = ({ info }: SessionRecord): boolean => isOver(storedPhase(info.state, info.runtime?.state))
const isLeaving = ({ intent, transaction }: SessionRecord): boolean =>
  intent === 'remove' || transaction?.kind === 'create'

/** The verdict on a session that lives; undefined for one that does not, or is on its way out. */
export function judgeLive(record: SessionRecord, evidence: Evidence): SessionVerdict | undefined {
  if (isEnded(record) || isLeaving(record)) return undefined
  if (evidence.processTable && !workerRuns(record, evidence)) return undefined
  const judged = judgeWorker(record, evidence)
  return verdictOn(record, judged === adoptable ? judgeRuntime(record, evidence) : judged)
}

/** The verdict on a session that is over but may be resumed or forked; undefined for any other. */
export function judgeStopped(record: SessionRecord, evidence: Pick<Evidence, 'isServed'>): SessionVerdict | undefined {
  const { resume, fork } = record.info.capabilities
  return isEnded(record) && !isLeaving(record) && (resume || fork)
    ? verdictOn(record, judgeRuntime(record, evidence))
    : undefined
}

/** A worker that answers for a terminal although no session record names it. */
export function isUnmanaged(journal: WorkerJournal, record: SessionRecord | undefined, evidence: Evidence): boolean {
  if (journal.workerId === record?.worker.worker_id) return false
  const holdsProgram = journal.phase === 'starting' || journal.phase === 'live' || journal.phase === 'faulted'
  return holdsProgram && runs(journal.worker, journal.bootId, evidence)
}

const runs = (
  { pid, startIdentity }: WorkerJournal['worker'],
  bootId: string | undefined,
  { processes }: Pick<Evidence, 'processes'>,
): boolean => (bootId === undefined || bootId === processes.bootId()) && processes.isRunning({ pid, startIdentity })

const workerRuns = ({ worker: { process, boot_id } }: SessionRecord, evidence: Evidence): boolean =>
  runs({ pid: process.pid, startIdentity: process.start_identity }, boot_id, evidence)

function judgeWorker({ worker }: SessionRecord, evidence: Evidence): Judgement {
  const { journals, processes, processTable, window } = evidence
  if (!processTable) return notAdopted('worker_identity_unverified', 'the process table cannot be read')
  const problem = journalProblem(worker, journals, processes)
  if (problem !== undefined) return notAdopted(problem.reason, problem.problem)
  if ('unreadable' in journals) return notAdopted('worker_identity_unverified', journals.unreadable)
  const own = journals.find((it) => it.workerId === worker.worker_id)
  if (own === undefined) return notAdopted('worker_identity_unverified', 'its worker has written no journal')
  const speaks = own.protocol ?? UNWRITTEN
  if (selectVersion(speaks, window) !== undefined) return adoptable
  return notAdopted(
    'worker_protocol_incompatible',
    `its worker speaks private protocol ${range(speaks)}, this daemon ${range(window)}`,
  )
}

function judgeRuntime({ info }: SessionRecord, { isServed }: Pick<Evidence, 'isServed'>): Judgement {
  if (isServed(info.agent_base)) return adoptable
  return {
    verdict: 'would_lose_recovery',
    code: 'runtime_source_not_served',
    detail: `no runtime ${info.agent_base} is installed for this daemon`,
  }
}

const verdictOn = ({ info }: SessionRecord, judgement: Judgement): SessionVerdict => ({
  session_id: info.id,
  ...judgement,
  ...(info.name === undefined ? {} : { name: info.name }),
})
