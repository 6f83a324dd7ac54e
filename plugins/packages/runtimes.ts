/** The one runtime that is compiled in: the user's login shell, with or without the files of the others. */
import { loginShell } from '../../platform/login-shell.ts'
import { SHELL_RUNTIME } from './descriptor-rules.ts'
import type { RuntimeDescriptor } from './descriptor.ts'
import { faults } from './faults.ts'

/** What runtime-packages/shell says: a shell can be started whatever became of the files. */
export const shellDescriptor: RuntimeDescriptor = {
  package: { id: 'pohunek.runtime.shell', version: '1.0.0' },
  runtime: {
    id: SHELL_RUNTIME,
    name: 'Shell',
    program: '$SHELL',
    args: ['-l'],
    promptArg: false,
    detectManifest: 'detect.toml',
  },
  input: {
    bracketedPaste: false,
    submitDelayMs: 0,
    ready: 'grace',
    textPolicy: 'unrestricted',
    composer: 'none',
    whileWorking: 'queue',
  },
  submitDelayConfigurable: false,
  resume: { supported: false },
  fork: { supported: false },
  nativeReference: { strategy: 'none' },
  reports: {},
}

/** The user's shell. Throws agent_binary_missing when it cannot be run. */
export function shellProgram(env: Readonly<Record<string, string | undefined>>): string {
  const { shell, problem } = loginShell(env)
  if (problem !== undefined) throw faults.agent_binary_missing({ shell: `${shell}: ${problem}` })
  return shell
}
