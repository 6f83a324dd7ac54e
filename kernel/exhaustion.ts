/** Want of file descriptors, wherever it shows: the caller is told that, not what could not be read for it. */
import { platformFaults } from '../platform/faults.ts'
import type { Fault } from '../protocol/fault.ts'

const MAX_CAUSES = 16

/** Pure. The contract's fault when EMFILE or ENFILE is what a throw comes from, else undefined. */
export function exhaustionIn(failure: unknown): Fault | undefined {
  let at: unknown = failure
  for (let depth = 0; at instanceof Error && depth < MAX_CAUSES; depth++) {
    const { code } = at as NodeJS.ErrnoException
    if (code === 'EMFILE') return platformFaults.client_file_descriptors_exhausted({}, failure)
    if (code === 'ENFILE') return platformFaults.system_file_descriptors_exhausted({}, failure)
    at = at.cause
  }
  return undefined
}
