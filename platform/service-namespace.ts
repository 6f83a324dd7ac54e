/** Which of a user's installations a service unit belongs to: daemon and CLI must agree on it. */
import { realpathSync } from 'node:fs'
import { basename, dirname, join } from 'node:path'
import { namespaceOf } from './linux/systemd-unit.ts'

/** `<ns>` of unit names, from the user id and the canonical state and runtime roots; the roots need not exist yet. */
export function serviceNamespace({ state, runtime }: { state: string; runtime: string }): string {
  return namespaceOf({ uid: process.geteuid?.() ?? 0, state: canonical(state), runtime: canonical(runtime) })
}

/** The path without symbolic links; parts that do not exist yet are taken as they are. */
function canonical(path: string): string {
  try {
    return realpathSync(path)
  } catch (failure) {
    if ((failure as NodeJS.ErrnoException).code !== 'ENOENT' || dirname(path) === path) throw failure
    return join(canonical(dirname(path)), basename(path))
  }
}
