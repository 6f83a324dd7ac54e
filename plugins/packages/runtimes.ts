/** Runtimes of this build. Only the login shell is built in; every other one arrives as an installed package. */
import { loginShell } from '../../platform/login-shell.ts'
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
    readonly composer: 'none'
    readonly whileWorking: 'queue'
  }
  readonly capabilities: { readonly resume: boolean; readonly fork: boolean }
}

export const isInstalled = (id: string): boolean => id === SHELL_RUNTIME

/** The user's shell as a login shell. Throws agent_binary_missing when it cannot be run. */
export function shellLaunch(env: Readonly<Record<string, string | undefined>>): RuntimeLaunch {
  const { shell, problem } = loginShell(env)
  if (problem !== undefined) throw faults.agent_binary_missing({ shell: `${shell}: ${problem}` })
  return { program: shell, args: ['-l'], ...shellRules }
}

export const shellRules = {
  input: {
    bracketedPaste: false,
    submitDelayMs: 0,
    textPolicy: 'unrestricted',
    ready: 'grace',
    composer: 'none',
    whileWorking: 'queue',
  },
  capabilities: { resume: false, fork: false },
} as const
