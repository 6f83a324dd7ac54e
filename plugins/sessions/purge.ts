/** Deletes what a session left in files: sockets, journals, logs, temporary directory. Names come from ids, never from users. */
import { chmod, readdir, rm } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { crashPoint } from '../../kernel/crash-points.ts'
import type { Paths } from '../../kernel/paths.ts'
import { coreFaults } from '../../protocol/fault.ts'
import { PATH_SAFE_SESSION_ID } from '../../protocol/session-id.ts'
import { sessionLogName } from '../../protocol/worker/files.ts'

/**
 * Nothing of these is an error when it is not there. Everything is tried before the first failure is told: a Fault
 * io_error that names the path the system refused.
 */
export async function purgeFiles(paths: Paths, sessionId: string): Promise<void> {
  if (!PATH_SAFE_SESSION_ID.test(sessionId)) return
  const results = await Promise.allSettled([
    remove(dirname(paths.workerSocket(sessionId))).then(() => crashPoint('purge.sockets')),
    remove(paths.journals(sessionId)).then(() => crashPoint('purge.journals')),
    removeForeign(paths.sessionTmp(sessionId)),
    removeLogs(paths, sessionId),
  ])
  const failed = results.find((it) => it.status === 'rejected')
  if (failed === undefined) return
  const failure: unknown = failed.reason
  const { path, code } = failure as NodeJS.ErrnoException
  if (path === undefined || code === undefined) throw failure
  throw coreFaults.io_error({ what: path, problem: `it cannot be deleted (${code}); delete it and retry` }, failure)
}

/** A program may have put a file where a directory of ours was: then there is nothing below it. */
const isNothing = (failure: unknown): boolean =>
  ['ENOENT', 'ENOTDIR'].includes((failure as NodeJS.ErrnoException).code ?? '')

async function remove(path: string): Promise<void> {
  try {
    await rm(path, { recursive: true, force: true })
  } catch (failure) {
    if (!isNothing(failure)) throw failure
  }
}

/** Deletes what a program filled; directories it made unwritable, as module caches do, are made writable first. */
async function removeForeign(path: string): Promise<void> {
  try {
    await remove(path)
  } catch (failure) {
    if (!['EACCES', 'EPERM', 'ENOTEMPTY'].includes((failure as NodeJS.ErrnoException).code ?? '')) throw failure
    await openDirectories(path)
    await remove(path)
  }
}

/** Gives the owner every directory from `path` down; a symbolic link is never followed. What is refused stays as it is. */
async function openDirectories(path: string): Promise<void> {
  const pending = [path]
  for (let directory = pending.pop(); directory !== undefined; directory = pending.pop()) {
    try {
      await chmod(directory, 0o700)
      const entries = await readdir(directory, { withFileTypes: true })
      for (const it of entries) if (it.isDirectory()) pending.push(join(directory, it.name))
    } catch {
      // the deletion names it
    }
  }
}

async function removeLogs(paths: Paths, sessionId: string): Promise<void> {
  const name = sessionLogName(sessionId)
  const names = (await namesIn(paths.logs)).filter((it) => it === name || it.startsWith(`${name}.`))
  for (const it of names) await remove(join(paths.logs, it))
}

/** Names in a directory; none when there is no directory. Throws what the system refused. */
export async function namesIn(directory: string): Promise<string[]> {
  try {
    return await readdir(directory)
  } catch (failure) {
    if (isNothing(failure)) return []
    throw failure
  }
}
