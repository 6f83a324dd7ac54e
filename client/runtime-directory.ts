/** Whether the runtime directory is this user's own, before anything in it is trusted. */
import { lstatSync } from 'node:fs'
import type { Roots } from '../platform/roots.ts'
import { clientError } from './errors.ts'

/**
 * Below the shared temporary directory anybody could have made ours; it is used only when it is exactly that. One that
 * is not there is no problem. Throws runtime_directory_unsafe.
 */
export function checkRuntimeDirectory({
  runtime,
  runtimeIsFallback,
}: Pick<Roots, 'runtime' | 'runtimeIsFallback'>): void {
  if (!runtimeIsFallback) return
  const stat = lstatSync(runtime, { throwIfNoEntry: false })
  if (stat === undefined) return
  const refuse = (problem: string): never => {
    throw clientError('runtime_directory_unsafe', { path: runtime, problem })
  }
  if (!stat.isDirectory()) refuse('is not a directory')
  if (stat.uid !== process.geteuid?.()) refuse('belongs to another user')
  if ((stat.mode & 0o777) !== 0o700) refuse(`has mode 0${(stat.mode & 0o777).toString(8)}, not 0700`)
}
