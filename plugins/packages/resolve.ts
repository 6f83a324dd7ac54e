/** Who an agent name stands for: name guard, then host profile, then installed runtime, then nobody. */
import { join } from 'node:path'
import { FILE_NAME, RUNTIME_ID } from '../../protocol/scalars.ts'
import type { InputPlan, LaunchPlan } from '../sessions/api.ts'
import { placeholders, SHELL_RUNTIME } from './descriptor-rules.ts'
import type { RuntimeDescriptor } from './descriptor.ts'
import { faults } from './faults.ts'
import type { OfficialSet } from './official.ts'
import { readManifest, readProfile, type Profile } from './profile.ts'
import { shellProgram } from './runtimes.ts'

export interface Agents {
  /** <config>/agents. */
  readonly directory: string
  readonly env: Readonly<Record<string, string | undefined>>
  readonly official: OfficialSet
  /** Submit delay the host sets for runtimes that let it; undefined: it sets none. */
  readonly submitDelayMs: number | undefined
}

/** What an agent name starts. */
export interface Agent {
  readonly name: string
  readonly descriptor: RuntimeDescriptor
  readonly profile: Profile | undefined
  /** Bare name or absolute path. */
  readonly program: string
  readonly args: readonly string[]
  readonly env: Readonly<Record<string, string>>
  readonly input: InputPlan
}

const MAX_NAME_BYTES = 128

/**
 * The agent behind a name, undefined when nobody has it: sessions refuse that plan. Throws invalid_name, invalid_profile, runtime_not_installed,
 * agent_binary_missing (the login shell cannot be run).
 */
export function resolveAgent(name: string, agents: Agents): Agent | undefined {
  if (!FILE_NAME.test(name) || name.length > MAX_NAME_BYTES) throw faults.invalid_name({ name })
  const profile = readProfile(agents.directory, name)
  const base = profile?.base ?? name
  const descriptor = agents.official.get(base)?.descriptor
  if (descriptor === undefined) {
    if (profile === undefined) return undefined
    throw faults.runtime_not_installed({ runtime: base })
  }
  const file = join(agents.directory, `${name}.toml`)
  if (profile !== undefined) checkProfile(profile, descriptor, { file, directory: agents.directory })
  return {
    name,
    descriptor,
    profile,
    ...launchOf(descriptor, profile, agents),
    env: profile?.env ?? {},
    input: inputOf(descriptor, profile, agents.submitDelayMs),
  }
}

/** A launch plan completed by the agent it names. */
export function planOf(plan: LaunchPlan, { descriptor, profile, program, args, env, input }: Agent): LaunchPlan {
  return {
    ...plan,
    agentBase: descriptor.runtime.id,
    program,
    args,
    env,
    input: { ...input },
    promptArg: descriptor.runtime.promptArg && profile === undefined,
    capabilities: { resume: false, fork: false },
  }
}

/** Arguments of the base belong to its own program; only those of the login shell mean nothing to another one. */
function launchOf(
  { runtime }: RuntimeDescriptor,
  profile: Profile | undefined,
  { env }: Agents,
): Pick<Agent, 'program' | 'args'> {
  const isShell = runtime.id === SHELL_RUNTIME
  const inherited = isShell && profile?.program !== undefined ? [] : runtime.args
  return {
    program: profile?.program ?? (isShell ? shellProgram(env) : runtime.program),
    args: profile?.args ?? inherited,
  }
}

function inputOf(
  { input, submitDelayConfigurable }: RuntimeDescriptor,
  profile: Profile | undefined,
  hostDelayMs: number | undefined,
): InputPlan {
  const { bracketed_paste, submit_delay_ms, composer, while_working } = profile?.input_rules ?? {}
  const ownDelayMs = (submitDelayConfigurable ? hostDelayMs : undefined) ?? input.submitDelayMs
  return {
    ...input,
    bracketedPaste: bracketed_paste ?? input.bracketedPaste,
    composer: composer ?? input.composer,
    whileWorking: while_working ?? input.whileWorking,
    submitDelayMs: submit_delay_ms ?? ownDelayMs,
  }
}

function checkProfile(
  { resume, manifest, package: pinned }: Profile,
  { runtime, nativeReference, fork }: RuntimeDescriptor,
  { file, directory }: { file: string; directory: string },
): void {
  const refuse = (key: string, problem: string): never => {
    throw faults.invalid_profile({ file, key, problem })
  }
  if (pinned !== undefined) refuse('package', `${runtime.id} is built in and pins no package`)
  if (manifest !== undefined) readManifest(directory, manifest, file)
  if (resume === undefined) return
  if (nativeReference.strategy === 'assigned')
    refuse('resume', `${runtime.id} assigns its references itself, a profile cannot change how it is resumed`)
  if ('resumable' in resume) return
  const { args, fork_args } = resume
  const broken = placeholders('resume.args', args, ['{reference}'])
  if (broken !== undefined) refuse('resume.args', broken.problem)
  if (fork_args === undefined) return
  if (!fork.supported) refuse('resume.fork_args', `${runtime.id} cannot be forked`)
  const brokenFork = placeholders('resume.fork_args', fork_args, ['{reference}'])
  if (brokenFork !== undefined) refuse('resume.fork_args', brokenFork.problem)
}

/** Throws for a label no enabled runtime serves: what it needs to be changed safely is not known. */
export function requireRuntime(label: string, official: OfficialSet): void {
  if (!RUNTIME_ID.test(label)) throw faults.agent_kind_unsupported({ label })
  if (official.get(label) === undefined) throw faults.runtime_not_installed({ runtime: label })
}
