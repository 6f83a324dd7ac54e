/** Rules of runtime.toml that hold between its keys (contract/runtime-packages.md §1). Pure. */
import type { DescriptorFile } from './descriptor.ts'
import type { TomlProblem } from './toml.ts'
import { brokenProbe } from './version.ts'

/** Program of the one runtime that is no package: the login shell of the user. */
export const LOGIN_SHELL = '$SHELL'
export const SHELL_RUNTIME = 'shell'

const REFERENCE = '{reference}'
/** The reference that a fork gets, for agents whose references are assigned to forks too. */
const FORK_REFERENCE = '{fork_reference}'

const HOOK_SCHEMAS: Readonly<Record<string, string>> = {
  'codex-hook-v1': 'identity-subagent-v1',
  'claude-hook-v1': 'identity-subagent-v1',
  'hermes-hook-v1': 'identity-v1',
}

/** First rule that `it` breaks, or undefined. */
export function brokenRule(it: DescriptorFile): TomlProblem | undefined {
  return (
    brokenProgram(it) ??
    brokenResume(it) ??
    brokenFork(it) ??
    brokenReference(it) ??
    brokenHooks(it) ??
    brokenVersion(it)
  )
}

function brokenProgram({ runtime }: DescriptorFile): TomlProblem | undefined {
  const isBare = /^[A-Za-z0-9_][A-Za-z0-9._+-]*$/.test(runtime.program) || runtime.program.startsWith('/')
  if (isBare || (runtime.id === SHELL_RUNTIME && runtime.program === LOGIN_SHELL)) return undefined
  return { key: 'runtime.program', problem: 'is neither a bare name nor an absolute path' }
}

function brokenResume({ resume, native_reference: native }: DescriptorFile): TomlProblem | undefined {
  if (native.strategy === 'none') {
    return resume.supported ? { key: 'resume.supported', problem: 'is true without a native reference' } : undefined
  }
  if (!resume.supported) return { key: 'resume.supported', problem: `is false, strategy ${native.strategy} needs true` }
  return placeholders('resume.args', resume.args, [REFERENCE])
}

function brokenFork({ fork, resume, native_reference: native }: DescriptorFile): TomlProblem | undefined {
  const assignsFork = native.strategy === 'assigned' && native.assign_fork
  if (!fork.supported)
    return assignsFork ? { key: 'native_reference.assign_fork', problem: 'is true without fork support' } : undefined
  if (!resume.supported) return { key: 'fork.supported', problem: 'is true without resume support' }
  return placeholders('fork.args', fork.args, assignsFork ? [REFERENCE, FORK_REFERENCE] : [REFERENCE])
}

function brokenReference({ native_reference: native, resume }: DescriptorFile): TomlProblem | undefined {
  if (native.strategy === 'none') return undefined
  if (native.strategy === 'assigned') {
    const broken = placeholders('native_reference.launch_args', native.launch_args, [REFERENCE])
    if (broken !== undefined) return broken
  }
  const { existence } = native
  const isById = resume.supported && resume.reference_kind === 'id'
  if (!isById && (native.strategy === 'assigned' || existence !== undefined))
    return { key: 'resume.reference_kind', problem: 'is not id, which this native reference needs' }
  if (existence?.check !== 'file') return undefined
  const parts = existence.file_name.split(REFERENCE)
  const isPlain = parts.length === 2 && parts.every((part) => /^[A-Za-z0-9._-]*$/.test(part))
  return isPlain
    ? undefined
    : { key: 'native_reference.existence.file_name', problem: `is not a plain name with one ${REFERENCE}` }
}

function brokenHooks({ integration }: DescriptorFile): TomlProblem | undefined {
  if (integration === undefined || HOOK_SCHEMAS[integration.handler] === integration.hook_schema) return undefined
  return { key: 'integration.hook_schema', problem: `does not belong to ${integration.handler}` }
}

function brokenVersion({ runtime }: DescriptorFile): TomlProblem | undefined {
  const broken = runtime.version_probe === undefined ? undefined : brokenProbe(runtime.version_probe)
  return broken && { key: `runtime.version_probe.${broken.key}`, problem: broken.problem }
}

/** Each placeholder is one whole item, exactly once, and no other braces pretend to be one. */
export function placeholders(key: string, args: readonly string[], wanted: readonly string[]): TomlProblem | undefined {
  for (const name of wanted) {
    const count = args.filter((it) => it === name).length
    if (count !== 1) return { key, problem: `names ${name} ${count} times as an item of its own, not once` }
  }
  const other = args.find((it) => !wanted.includes(it) && /\{(fork_)?reference\}/.test(it))
  return other === undefined ? undefined : { key, problem: 'holds a placeholder inside a longer item' }
}
