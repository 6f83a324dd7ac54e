/** Deletes what a session left in files: sockets, journals, logs, temporary directory. Names come from ids, never from users. */
import { readdir, rm } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { crashPoint } from '../../kernel/crash-points.ts'
import type { Paths } from '../../kernel/paths.ts'
import { PATH_SAFE_SESSION_ID } from '../../protocol/scalars.ts'
import { sessionLogName } from '../../protocol/worker/files.ts'

/** Nothing of these is an error when it is not there. Throws what the system refused. */
export async function purgeFiles(paths: Paths, sessionId: string): Promise<void> {
  if (!PATH_SAFE_SESSION_ID.test(sessionId)) return
  const remove = (path: string): Promise<void> => rm(path, { recursive: true, force: true })
  await Promise.all([
    remove(dirname(paths.workerSocket(sessionId))).then(() => crashPoint('purge.sockets')),
    remove(paths.journals(sessionId)).then(() => crashPoint('purge.journals')),
    remove(paths.sessionTmp(sessionId)),
    ...(await logFiles(paths, sessionId)).map(remove),
  ])
}

async function logFiles(paths: Paths, sessionId: string): Promise<string[]> {
  const name = sessionLogName(sessionId)
  const names = await namesIn(paths.logs)
  return names.filter((it) => it === name || it.startsWith(`${name}.`)).map((it) => join(paths.logs, it))
}

/** Names in a directory; none when there is no directory. Throws what the system refused. */
export async function namesIn(directory: string): Promise<string[]> {
  try {
    return await readdir(directory)
  } catch (failure) {
    if ((failure as NodeJS.ErrnoException).code === 'ENOENT') return []
    throw failure
  }
}
