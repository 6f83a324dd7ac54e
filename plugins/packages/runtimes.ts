/** Runtimes of this build. Only the login shell is built in; every other one arrives as an installed package. */
import { statSync } from 'node:fs'
import { userInfo } from 'node:os'
import { isAbsolute } from 'node:path'
import { faults } from './faults.ts'

export const SHELL_RUNTIME = 'shell'

export interface RuntimeLaunch {
  readonly program: string
  readonly args: readonly string[]
  readonly input: {
    readonly bracketedPaste: boolean
    readonly submitDelayMs: number
    readonly textPolicy: 'unrestricted'
    readonly ready: 'grace'
  }
  readonly capabilities: { readonly resume: boolean; readonly fork: boolean }
}

export const isInstalled = (id: string): boolean => id === SHELL_RUNTIME

/** The user's shell as a login shell. Throws agent_binary_missing when it cannot be run. */
export function shellLaunch(env: Readonly<Record<string, string | undefined>>): RuntimeLaunch {
  return { program: loginShell(env), args: ['-l'], ...shellRules }
}

export const shellRules = {
  input: { bracketedPaste: false, submitDelayMs: 0, textPolicy: 'unrestricted', ready: 'grace' },
  capabilities: { resume: false, fork: false },
} as const

/** $SHELL when it is set, else the account's shell: a shell that was chosen and is broken is told, not replaced. */
function loginShell(env: Readonly<Record<string, string | undefined>>): string {
  const shell = env['SHELL'] !== undefined && env['SHELL'] !== '' ? env['SHELL'] : (accountShell() ?? '/bin/sh')
  const problem = programProblem(shell)
  if (problem !== undefined) throw faults.agent_binary_missing({ shell: `${shell}: ${problem}` })
  return shell
}

function accountShell(): string | undefined {
  try {
    const { shell } = userInfo()
    return shell === null || shell === '' ? undefined : shell
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
