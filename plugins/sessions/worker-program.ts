/** How this build starts its workers. */
import { realpathSync } from 'node:fs'
import { dirname, isAbsolute, join } from 'node:path'
import { workerEnvironment } from './launch-env.ts'
import type { WorkerProgram } from './supply.ts'

/**
 * The worker bundle lies beside the daemon's own. POHUNEK_WORKER_BIN names another one, for development.
 * --v8-pool-size is node's own option: it saves threads and, unlike V8's flags, keeps the built-in code cache valid.
 */
export function workerProgram(env: Readonly<Record<string, string | undefined>>): WorkerProgram {
  const own = env['POHUNEK_WORKER_BIN']
  const base = { env: workerEnvironment(env) }
  if (own !== undefined && isAbsolute(own)) return { ...base, executable: own, args: [] }
  const bundle = join(dirname(realpathSync(process.argv[1] ?? '.')), 'pohunek-sessiond.cjs')
  return { ...base, executable: process.execPath, args: ['--v8-pool-size=0', bundle] }
}
