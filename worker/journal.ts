/**
 * What survives the worker: one small JSON file, replaced atomically before a fact is told to anyone. Schema 4 of
 * contract/environment.md §5. No environment value, prompt, input, terminal byte or token ever gets in.
 */
import * as fs from 'node:fs'
import { dirname, join } from 'node:path'
import { crashPoint } from '../platform/crash-points.ts'
import { makeDirectories } from '../platform/directories.ts'
import type { JOURNAL_SCHEMA, JournalPhase } from '../protocol/worker/files.ts'
import type { ChildExit, ProcessIdentity } from '../protocol/worker/messages.ts'
import { WorkerFailure } from './failure.ts'

export interface Journal {
  schema_version: typeof JOURNAL_SCHEMA
  session_id: string
  worker_id: string
  generation: string
  worker_pid: number
  worker_start_identity: string
  worker_version: string
  /** Ours: boot the start identities belong to. */
  boot_id?: string
  /** Ours: versions of the private protocol this worker speaks, for who must not connect to find out. */
  worker_protocol?: { minimum: number; maximum: number }
  phase: JournalPhase
  /** The marker value of the runtime, known before its program is started. */
  runtime_id?: string
  child?: { pid: number; process_group: number; start_identity: string }
  outcome?: {
    exit_code: number | null
    signal: number | null
    success: boolean
    /** RFC 3339. */
    exited_at: string
    reason: 'exited' | 'stopped_by_user' | 'cleanup_unconfirmed'
    output_force_closed: boolean
  }
  /** Fixed words and process ids. */
  fault?: string
  launch_identity: {
    provider: string
    process: ProcessIdentity | null
    reference_kind: string | null
    native_reference: string | null
  } | null
  active_identity: null
  latest_native_reference: null
  subagents: []
  background: []
  hook_schema: string | null
  launch_daemon_id?: string
  output: { history_start_offset: number; next_offset: number }
  dimensions?: { columns: number; rows: number }
}

/** Pure. What waitpid said, in the journal's words. */
export function outcomeOf(exit: ChildExit, faulted: boolean): NonNullable<Journal['outcome']> {
  return {
    exit_code: exit.code ?? null,
    signal: exit.signal ?? null,
    success: exit.code === 0,
    exited_at: new Date(exit.exited_at_ms).toISOString(),
    reason: faulted ? 'cleanup_unconfirmed' : exit.stopped_by_user ? 'stopped_by_user' : 'exited',
    output_force_closed: exit.output_force_closed,
  }
}

export class JournalFile {
  readonly path: string

  constructor(stateRoot: string, sessionId: string, workerId: string) {
    this.path = join(stateRoot, 'workers', sessionId, `${workerId}.json`)
    makeDirectories(dirname(this.path))
  }

  /**
   * Replaces the journal. `durable`: also against a power cut; a phase that only matters while its processes exist
   * need not be, since none of them survives one. Throws WorkerFailure `runtime_fault`; the last journal stays then.
   */
  write(journal: Journal, durable: boolean): void {
    const { phase } = journal
    crashPoint('worker.journal.before', phase)
    const temporary = `${this.path}.tmp`
    try {
      const fd = fs.openSync(temporary, 'w', 0o600)
      try {
        fs.writeFileSync(fd, `${JSON.stringify(journal)}\n`)
        if (durable) fs.fsyncSync(fd)
      } finally {
        fs.closeSync(fd)
      }
      crashPoint('worker.journal.staged', phase)
      fs.renameSync(temporary, this.path)
    } catch (failure) {
      const { code = 'unknown' } = failure as NodeJS.ErrnoException
      throw new WorkerFailure('runtime_fault', `the worker's journal cannot be written (${code})`, true)
    }
    crashPoint('worker.journal.after', phase)
  }
}
