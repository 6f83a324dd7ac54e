/** Owner-private record of one worker generation: what was started, so that a later daemon can prove what still runs. */
import { readdirSync } from 'node:fs'
import { join } from 'node:path'
import { Fault, coreFaults } from '../../protocol/fault.ts'
import { SESSION_ID_PART } from '../../protocol/session-id.ts'
import { crashPoint } from '../crash-points.ts'
import { platformFaults } from '../faults.ts'
import { privateDir, readPrivate, removeFile, writeAtomicSync } from '../private-files.ts'
import type { JobSpec, WorkerJob } from '../supervisor.ts'

export interface JobRecord {
  session_id: string
  generation: number
  /** Absent from before the spawn until right after it: the process is then looked for by its arguments. */
  pid?: number
  start_identity?: string
  boot_id: string
  executable: string
  /** Arguments as /proc shows them; until the worker was ready, as they were asked for. */
  argv: string[]
  /** True once the worker told that it accepts. */
  ready: boolean
}

export type StoredJob = { job: WorkerJob; record: JobRecord } | { job: WorkerJob; damaged: string }

const MAX_BYTES = 1_048_576
/** What a writer that was killed between write and rename leaves; writes are synchronous, so none of ours is under way. */
const UNFINISHED = /^\.[A-Za-z0-9._:-]+\.json\.[0-9a-f]+$/

export class JobFiles {
  readonly #directory: string

  /** `state` exists; the directory below it, one for each form of supervision, is made 0700 when missing. */
  constructor(state: string, directory: 'jobs' | 'units' = 'jobs') {
    this.#directory = join(state, directory)
  }

  path({ sessionId, generation }: WorkerJob): string {
    const name = `${sessionId}-${generation}.json`
    if (jobOf(name) === undefined) throw new Error(`no job file name can be made of ${JSON.stringify(name)}`)
    return join(this.#directory, name)
  }

  read(job: WorkerJob): StoredJob | undefined {
    const path = this.path(job)
    try {
      const bytes = readPrivate(path, MAX_BYTES)
      if (bytes === undefined) return undefined
      const record = parseJob(bytes.toString('utf8'))
      if (record?.session_id === job.sessionId && record.generation === job.generation) return { job, record }
      return { job, damaged: `the job file ${path} is damaged; remove it once no process of the session runs` }
    } catch (failure) {
      return { job, damaged: `the job file ${path} cannot be read: ${(failure as Error).message}` }
    }
  }

  /** Record of a start that is about to happen. Throws Fault worker_operation_failed when its generation has one. */
  begin({ sessionId, generation, executable, args }: JobSpec, bootId: string): JobRecord {
    const job = { sessionId, generation }
    if (this.read(job) !== undefined) {
      const problem = `generation ${generation} of session ${sessionId} is already recorded in ${this.path(job)}`
      throw platformFaults.worker_operation_failed({ problem })
    }
    const record: JobRecord = {
      session_id: sessionId,
      generation,
      boot_id: bootId,
      executable,
      argv: [executable, ...args],
      ready: false,
    }
    crashPoint('job.start.before')
    this.write(record)
    crashPoint('job.start.recorded')
    return record
  }

  /** A record means nothing after a reboot (boot_id), so it is not fsynced: it survives the daemon, which is its purpose. Throws Fault io_error. */
  write(record: JobRecord): void {
    const path = this.path({ sessionId: record.session_id, generation: record.generation })
    try {
      privateDir(this.#directory)
      writeAtomicSync(path, `${JSON.stringify(record)}\n`, { durable: false })
    } catch (failure) {
      if (failure instanceof Fault) throw failure
      throw coreFaults.io_error({ what: `the job file ${path}`, problem: (failure as Error).message }, failure)
    }
  }

  remove(job: WorkerJob): void {
    removeFile(this.path(job))
  }

  /** All records. Unfinished files of a killed writer are removed on the way. */
  list(): StoredJob[] {
    let names: string[]
    try {
      names = readdirSync(this.#directory)
    } catch (failure) {
      if ((failure as NodeJS.ErrnoException).code === 'ENOENT') return []
      throw failure
    }
    for (const name of names.filter((it) => UNFINISHED.test(it))) removeFile(join(this.#directory, name))
    return names.sort().flatMap((name) => {
      const job = jobOf(name)
      return job === undefined ? [] : (this.read(job) ?? [])
    })
  }
}

/** Undefined when it is not the name of a job file. */
function jobOf(name: string): WorkerJob | undefined {
  const [, sessionId, generation] = /^(.+)-([1-9]\d{0,9})\.json$/.exec(name) ?? []
  return sessionId === undefined || !SESSION_ID_PART.test(sessionId)
    ? undefined
    : { sessionId, generation: Number(generation) }
}

/** Undefined when the text is no job record. */
function parseJob(text: string): JobRecord | undefined {
  let raw: unknown
  try {
    raw = JSON.parse(text)
  } catch {
    return undefined
  }
  if (typeof raw !== 'object' || raw === null) return undefined
  const it = raw as Partial<Record<keyof JobRecord, unknown>>
  const isIdentified = it.pid !== undefined || it.start_identity !== undefined
  if (
    isIdentified &&
    !(Number.isSafeInteger(it.pid) && (it.pid as number) > 0 && /^\d+$/.test(String(it.start_identity)))
  )
    return undefined
  if (typeof it.session_id !== 'string' || !Number.isSafeInteger(it.generation)) return undefined
  if (typeof it.boot_id !== 'string' || typeof it.executable !== 'string' || typeof it.ready !== 'boolean')
    return undefined
  if (!Array.isArray(it.argv) || !it.argv.every((argument) => typeof argument === 'string')) return undefined
  return raw as JobRecord
}
