/** macOS has no implementation yet: every fact refuses with a clear error instead of guessing. */
import { platformFaults } from '../faults.ts'
import type { Processes } from '../processes.ts'

export function unsupported(what: string): never {
  throw platformFaults.platform_unsupported({ what, platform: process.platform })
}

const fact = (): never => unsupported('process inspection')

export const unsupportedProcesses: Processes = {
  identify: fact,
  isRunning: fact,
  argv: fact,
  cwd: fact,
  program: fact,
  foregroundGroup: fact,
  membersOf: fact,
  descendantsOf: fact,
  findMarked: fact,
  variable: fact,
  signal: fact,
  bootId: fact,
}
