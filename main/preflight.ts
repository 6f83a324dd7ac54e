/**
 * `pohunekd upgrade-preflight`: what would happen if this daemon replaced the one that runs. It opens files for reading
 * and looks at the process table, and does nothing else: no lock, no write, no connection, so that it may run beside a
 * daemon of another release at any time. What it says holds for the moment it looked.
 */
import { readdirSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { loadConfig } from '../kernel/config.ts'
import { startOrder, without as leaveOut } from '../kernel/order.ts'
import { METADATA_LOG, resolvePaths, type Paths } from '../kernel/paths.ts'
import { readPrivate } from '../kernel/secure-files.ts'
import { dryRun, tableOf, type DryRun } from '../kernel/store/dry-run.ts'
import type { StoreOptions } from '../kernel/store/record-log.ts'
import type { Bootable, StoreFile } from '../kernel/index.ts'
import { checkPrivateDir } from '../platform/private-files.ts'
import type { Processes } from '../platform/processes.ts'
import { readJournals } from '../plugins/sessions/journal.ts'
import { sessionTable, type SessionRecord } from '../plugins/sessions/record.ts'
import { Fault, catalogue, messageOf } from '../protocol/fault.ts'
import { PATH_SAFE_SESSION_ID } from '../protocol/session-id.ts'
import { WORKER_PROTOCOL } from '../protocol/worker/messages.ts'
import {
  isEnded,
  isUnmanaged,
  judgeLive,
  judgeStopped,
  type Evidence,
  type SessionVerdict,
} from './preflight-verdict.ts'

/** contract/cli.md, PreflightReport. What is absent is null, so that every key is always there. */
export interface PreflightReport {
  readonly report_version: 1
  readonly store: {
    readonly state: DryRun['state']
    readonly schema_from: number | null
    readonly schema_to: number
    /** Lines of the store. */
    readonly records: number
    readonly error_code: string | null
    readonly error: string | null
  }
  /** Sessions that live. None while their store is refused: nobody can say what it holds. */
  readonly sessions: readonly SessionVerdict[]
  /** Ours in shape: workers with a program that no record names. They do not keep anybody from an upgrade. */
  readonly unmanaged_workers: readonly UnmanagedWorker[]
  /** The plan for the runtimes a release carries; this one carries none. */
  readonly runtimes: null
  /** Sessions that are over and may be resumed or forked. */
  readonly stopped_sessions: readonly SessionVerdict[]
}

export interface UnmanagedWorker {
  readonly session_id: string
  readonly worker_id: string | null
  readonly pid: number | null
  readonly code: string
  readonly detail: string
}

export interface PreflightOptions {
  readonly env: Readonly<Record<string, string | undefined>>
  readonly plugins: readonly Bootable[]
  readonly without: readonly string[]
  readonly store: Pick<StoreOptions, 'schema' | 'migrations'>
  readonly processes: Pick<Processes, 'isRunning' | 'bootId' | 'identify'>
  /** Whether a runtime is installed for this daemon. */
  readonly isServed: (runtimeId: string) => boolean
  /** Directory for users without a runtime directory. */
  readonly tmpdir: string
}

const preflightFaults = catalogue({
  service_upgrade_store_unusable: {
    class: 'configuration',
    say: (d: { error: string; lost: boolean }) =>
      d.lost ? `the records of sessions are lost: ${d.error}` : `this daemon would not start on the store: ${d.error}`,
    recover: (d: { remedy: string }) => d.remedy,
  },
  store_records_lost: {
    class: 'configuration',
    say: (d: { file: string }) =>
      `${d.file} has not one complete line, but workers of sessions wrote journals: a start would take it for an empty store`,
    recover: (d: { file: string }) =>
      `restore ${d.file} from a backup, or look at it with the release that runs; to go on without these sessions, end their workers and move the file and the workers directory away`,
  },
  service_upgrade_preflight_failed: {
    class: 'configuration',
    say: (d: { directory: string; problem: string }) => `${d.directory} cannot be read: ${d.problem}`,
    recover: (d: { directory: string }) =>
      `move what is at ${d.directory} away: it is a directory of the workers' journals, made when it is missing`,
  },
  service_upgrade_sessions_at_risk: {
    class: 'runtime',
    say: (d: { atRisk: number }) =>
      `${d.atRisk} ${d.atRisk === 1 ? 'session' : 'sessions'} would not come through the upgrade whole`,
    recover: 'end these sessions first, or keep the release that runs; session inspect tells more of each',
  },
})

/**
 * Looks and reports; nothing is changed. `refusal` is why the upgrade should not be made now. Throws the Fault this
 * daemon would refuse to start with: configuration, directories or plugins. Never waits; it reads the
 * whole store and the journals of all sessions.
 */
export function preflight(options: PreflightOptions): { report: PreflightReport; refusal: Fault | undefined } {
  const found = gather(options)
  const outcome = judge(found, options)
  return { report: reportOf(found, outcome), refusal: refusalOf(found, outcome) }
}

/** What there is. The journals of a session are read when they are first asked for. */
interface Found {
  readonly file: string
  readonly store: DryRun
  /** The record logs of plugins beside that of the sessions. */
  readonly others: readonly DryRun[]
  readonly table: ReturnType<typeof tableOf<SessionRecord>>
  readonly written: ReturnType<typeof sessionsWithFiles>
  readonly evidenceOf: (id: string) => Evidence
}

interface Outcome {
  /** Why a daemon would not start on the stores. */
  readonly unstartable: Fault | undefined
  /** The store was emptied: a daemon would start on it and know none of its sessions. */
  readonly lost: Fault | undefined
  readonly sessions: readonly SessionVerdict[]
  readonly unmanaged: readonly UnmanagedWorker[]
  readonly stopped: readonly SessionVerdict[]
}

function gather(options: PreflightOptions): Found {
  const { env, processes } = options
  const paths = resolvePaths(env, { uid: process.geteuid?.() ?? 0, platform: process.platform, tmpdir: options.tmpdir })
  for (const path of [paths.runtime, paths.data, paths.state, paths.logs]) checkIfPresent(path)
  const config = loadConfig(paths)
  const plugins = startOrder(leaveOut(options.plugins, [...new Set([...config.without, ...options.without])]))
  const file = join(paths.data, METADATA_LOG)
  const store = lookAt({ file, ...options.store })
  const others = plugins.flatMap((it) => it.stores?.(paths) ?? []).map(lookAt)
  const table = tableOf(store.state === 'refused' ? [] : store.changes, sessionTable)
  const common = {
    processes,
    processTable: processes.identify(process.pid) !== undefined,
    window: WORKER_PROTOCOL,
    isServed: options.isServed,
  }
  const known = new Map<string, Evidence>()
  const evidenceOf = (id: string): Evidence => {
    const evidence = known.get(id) ?? { ...common, journals: readJournals(paths.journals(id), id) }
    known.set(id, evidence)
    return evidence
  }
  return { file, store, others, table, written: sessionsWithFiles(paths), evidenceOf }
}

function judge(found: Found, options: Pick<PreflightOptions, 'isServed'>): Outcome {
  const { file, store, others, table, written, evidenceOf } = found
  const records = [...table.records.values()]
  const judged = records
    .filter((it) => !isEnded(it))
    .map((it) => judgeLive(it, evidenceOf(it.info.id)))
    .filter((it) => it !== undefined)
  const ids = store.state === 'refused' || 'unreadable' in written ? [] : written
  const unrecorded = ids.flatMap((id) => strangers(id, table.records, evidenceOf(id)))
  const isEmptied = store.state !== 'missing' && store.records === 0 && ids.some((id) => ranPrograms(evidenceOf(id)))
  // A record that cannot be read may be of any worker no record names.
  const isComplete = store.damaged.length + table.damaged.length === 0 && !isEmptied
  return {
    unstartable: [store, ...others].find((it) => it.error !== undefined)?.error,
    lost: isEmptied ? preflightFaults.store_records_lost({ file }) : undefined,
    sessions: isComplete ? judged : [...judged, ...unrecorded.map(withoutRecord)],
    unmanaged: isComplete ? unrecorded : [],
    stopped: records.map((it) => judgeStopped(it, options)).filter((it) => it !== undefined),
  }
}

function reportOf({ store }: Found, { unstartable, lost, sessions, unmanaged, stopped }: Outcome): PreflightReport {
  // The report has one store: that of the sessions, refused also when this daemon would not start on another one.
  const error = unstartable ?? lost
  return {
    report_version: 1,
    store: {
      state: error === undefined ? store.state : 'refused',
      schema_from: store.schemaFrom ?? null,
      schema_to: store.schemaTo,
      records: store.records,
      error_code: error?.code ?? null,
      error: error?.message ?? null,
    },
    sessions,
    unmanaged_workers: unmanaged,
    runtimes: null,
    stopped_sessions: stopped,
  }
}

function refusalOf({ written }: Found, { unstartable, lost, sessions, stopped }: Outcome): Fault | undefined {
  const error = unstartable ?? lost
  if (error !== undefined) return unusable(error)
  if ('unreadable' in written) return preflightFaults.service_upgrade_preflight_failed(written.unreadable)
  const atRisk = [...sessions, ...stopped].filter((it) => it.verdict !== 'adoptable').length
  return atRisk > 0 ? preflightFaults.service_upgrade_sessions_at_risk({ atRisk }) : undefined
}

function lookAt({ file, ...known }: StoreFile): DryRun {
  try {
    return dryRun(readPrivate(file, Number.MAX_SAFE_INTEGER), { file, ...known })
  } catch (failure) {
    if (!(failure instanceof Fault)) throw failure
    return { ...dryRun(undefined, { file, ...known }), state: 'refused', error: failure }
  }
}

const unusable = (error: Fault): Fault =>
  preflightFaults.service_upgrade_store_unusable(
    { error: error.message, remedy: error.recover ?? 'look at the file', lost: error.code === 'store_records_lost' },
    error,
  )

function checkIfPresent(path: string): void {
  try {
    checkPrivateDir(path)
  } catch (failure) {
    if ((failure as NodeJS.ErrnoException).code !== 'ENOENT') throw failure
  }
}

/** Sessions whose workers wrote journals, whether or not anybody records them. */
function sessionsWithFiles(
  paths: Paths,
): readonly string[] | { readonly unreadable: { readonly directory: string; readonly problem: string } } {
  const directory = dirname(paths.journals('s-0'))
  try {
    return readdirSync(directory).filter((it) => PATH_SAFE_SESSION_ID.test(it))
  } catch (failure) {
    if ((failure as NodeJS.ErrnoException).code === 'ENOENT') return []
    return { unreadable: { directory, problem: messageOf(failure) } }
  }
}

/** A spare writes a journal too, before anybody records it; a program is started only for a session that is recorded. */
const ranPrograms = ({ journals }: Evidence): boolean =>
  'unreadable' in journals || journals.some(({ phase }) => phase !== 'bootstrap' && phase !== 'never_initialized')

function strangers(
  id: string,
  records: ReadonlyMap<string, SessionRecord>,
  evidence: Evidence,
): readonly UnmanagedWorker[] {
  const record = records.get(id)
  const { journals } = evidence
  if ('unreadable' in journals) {
    if (record !== undefined) return [] // it is judged with its session
    const code = 'worker_identity_unverified'
    return [{ session_id: id, worker_id: null, pid: null, code, detail: journals.unreadable }]
  }
  return journals
    .filter((it) => isUnmanaged(it, record, evidence))
    .map(({ workerId, generation, worker: { pid } }) => ({
      session_id: id,
      worker_id: workerId,
      pid,
      code: 'stale_worker_generation',
      detail: `process ${pid} runs as generation ${generation} of it, which no record names`,
    }))
}

const withoutRecord = ({ session_id, detail }: UnmanagedWorker): SessionVerdict => ({
  session_id,
  verdict: 'would_not_be_adopted',
  code: 'worker_without_session_record',
  detail: `${detail}; the store has records that cannot be read`,
})
