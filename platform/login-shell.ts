/** Which shell is the user's login shell; one rule for starting it and for asking it. */
import { statSync } from 'node:fs'
import { userInfo } from 'node:os'
import { isAbsolute } from 'node:path'

/**
 * $SHELL when it is set, else the account's, else /bin/sh. `problem` says why that one cannot be run: a shell that was
 * chosen and is broken is told, not replaced by another.
 */
export function loginShell(env: Readonly<Record<string, string | undefined>>): { shell: string; problem?: string } {
  const shell = [env['SHELL'], accountShell()].find((it) => it !== undefined && it !== '') ?? '/bin/sh'
  const problem = programProblem(shell)
  return problem === undefined ? { shell } : { shell, problem }
}

function accountShell(): string | undefined {
  try {
    return userInfo().shell ?? undefined
  } catch {
    return undefined // no account entry for this uid
  }
}

function programProblem(path: string): string | undefined {
  if (!isAbsolute(path)) return 'not an absolute path'
  try {
    const found = statSync(path)
    if (!found.isFile()) return 'not a file'
    return (found.mode & 0o111) === 0 ? 'not executable' : undefined
  } catch (failure) {
    return (failure as NodeJS.ErrnoException).code === 'ENOENT' ? 'does not exist' : (failure as Error).message
  }
}
