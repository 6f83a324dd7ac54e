/** Starts the daemon of this installation through its command line, which knows all there is to a start. */
import { execFile } from 'node:child_process'
import { fileURLToPath } from 'node:url'
import { clientError } from './errors.ts'

/** The command bounds its own wait; this is for one that hangs. */
const START_MS = 40_000

/** Resolves once a daemon answers. Throws daemon_spawn_failed with what was said. */
export function startDaemon(env: Readonly<Record<string, string | undefined>>): Promise<void> {
  // The same from client/ and from dist/.
  const program = fileURLToPath(new URL('../bin/pohunek', import.meta.url))
  return new Promise((resolve, reject) => {
    execFile(program, ['daemon', 'start', '--detach'], { env, timeout: START_MS }, (failure, _stdout, stderr) => {
      if (failure === null) resolve()
      else {
        const problem = stderr.trim() === '' ? failure.message : stderr.trim().replace(/^error: /, '')
        reject(clientError('daemon_spawn_failed', { problem }, failure))
      }
    })
  })
}
