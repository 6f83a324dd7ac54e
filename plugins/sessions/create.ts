/**
 * session.new as a transaction: everything is checked first; then the intent is durable, the worker initialized, the
 * result durable, and only then told. Any failure behind the intent is compensated: no process, file or record stays.
 */
import { stat } from 'node:fs/promises'
import { ulid } from 'ulid'
import { crashPoint } from '../../kernel/crash-points.ts'
import { faultOf } from '../../kernel/hooks.ts'
import { privateDir } from '../../kernel/secure-files.ts'
import { coreFaults, Fault, messageOf } from '../../protocol/fault.ts'
import {
  HOOK_PROTOCOL_VERSION,
  INPUT_STALL_SINCE,
  type Initialize,
  type ResponseOf,
} from '../../protocol/worker/messages.ts'
import { MAX_ARGUMENT_BYTES, WORKER_INITIALIZE_MS, WRITE_DEDUP_ENTRIES } from '../../protocol/limits.ts'
import { PROTOCOL_VERSION } from '../../protocol/version.ts'
import { utf8Bytes } from '../../protocol/scalars.ts'
import { environmentProblem } from '../../protocol/worker/environment.ts'
import type { FoundProgram, LaunchPlan, Preparation } from './api.ts'
import { faults } from './faults.ts'
import type { Host } from './host.ts'
import { baseEnvironment, profileEnvironment, type Environment } from './launch-env.ts'
import { findProgram } from './program.ts'
import type { SessionRecord } from './record.ts'
import { finishRemoval } from './remove.ts'
import { absoluteCwd, changedMetadata, displayName, terminalSize, withoutWorktrees, type Size } from './request.ts'
import { inputRulesOf, withFields } from './input-rules.ts'
import { connectSession, programEnded, type Examine } from './runtime.ts'
import type { Session } from './session.ts'
import type { Spare } from './supply.ts'
import { newPatience } from './sweep-session.ts'
import { workerFault } from './worker-faults.ts'

export interface NewSession {
  readonly agent: string
  readonly cols: number
  readonly rows: number
  readonly name?: string
  readonly cwd?: string
  readonly project?: string
  readonly repo?: string
  readonly branch?: string
  readonly base_branch?: string
  readonly reuse_branch?: boolean
  readonly metadata?: Readonly<Record<string, string>>
  readonly search_path?: string
  readonly input?: string
}

/** A first prompt that is an argument; one that a program takes for an option or a file, or is too long, is typed. */
const passesPrompt = ({ promptArg }: Pick<LaunchPlan, 'promptArg'>, input: string): boolean =>
  promptArg && !/^($|[-@])/.test(input) && utf8Bytes(input) <= MAX_ARGUMENT_BYTES

/** Everything that is known before a worker is taken. */
interface Launch {
  readonly plan: LaunchPlan & { agentBase: string; program: string }
  readonly size: Size
  readonly name: string | undefined
  readonly metadata: Readonly<Record<string, string>>
  cwd: string
  readonly program: FoundProgram
  /** Typed into the terminal once the program is ready. */
  readonly prompt: string | undefined
  /** The prompt as last argument: given to the worker alone, no record holds it. */
  readonly passed: readonly string[]
}

/** The created session, already told. Throws what contract/methods.md lists for session.new; then nothing is left. */
export async function createSession(
  host: Host,
  params: NewSession,
  examine: Examine,
): Promise<{ session: Session; prompt: string | undefined }> {
  const launch = await check(host, params)
  const spare = await host.supply.take()
  crashPoint('worker.leased')
  let recorded: Session | undefined
  try {
    const env = environment(host, launch, spare)
    const session = host.registry.prepare(newRecord(host, launch, spare, env.base))
    await host.registry.store(session.record)
    crashPoint('create.recorded')
    recorded = session
    connectSession(host, session, spare.link, spare.scope, examine)
    privateTmp(host, spare.sessionId)
    crashPoint('create.directory')
    await prepare(host, session, launch)
    const initialized = await initialize(host, launch, spare, env, session.record.transaction?.id ?? '')
    crashPoint('create.initialized')
    await commit(host, session, initialized)
    return { session, prompt: launch.prompt }
  } catch (failure) {
    if (recorded === undefined) await discard(host, spare)
    else await undo(host, recorded, examine)
    throw failure
  } finally {
    host.supply.refill()
  }
}

async function check(host: Host, params: NewSession): Promise<Launch> {
  const size = terminalSize(params)
  const name = displayName(params.name)
  const metadata = changedMetadata({}, params.metadata ?? {})
  const asked = absoluteCwd(params.cwd)
  const plan = await planned(host, params, asked)
  const cwd = plan.cwd ?? host.kernel.paths.home
  await checkDirectory(cwd)
  const program = await findProgram(plan.program, host.programs, params.search_path)
  await plan.verify?.(program)
  const { input } = params
  const launch = { plan, size, name, metadata, cwd, program }
  return input !== undefined && passesPrompt(plan, input)
    ? { ...launch, prompt: undefined, passed: [input] }
    : { ...launch, prompt: input, passed: [] }
}

async function planned(host: Host, params: NewSession, cwd: string | undefined): Promise<Launch['plan']> {
  const { agent, project, repo, branch, base_branch, reuse_branch } = params
  const empty: LaunchPlan = {
    agent,
    args: [],
    env: {},
    ...(cwd === undefined ? {} : { cwd }),
    input: {
      bracketedPaste: false,
      submitDelayMs: host.kernel.config.input.submitDelayMs,
      ready: 'grace',
      textPolicy: 'unrestricted',
      composer: 'none',
      whileWorking: 'queue',
    },
    promptArg: false,
    target: definedOnly({ project, repo, branch, base_branch, reuse_branch }),
    capabilities: { resume: false, fork: false },
  }
  let plan: LaunchPlan
  try {
    plan = await host.hooks.plan.promise(empty)
  } catch (failure) {
    throw faultOf(failure)
  }
  const { agentBase, program } = plan
  if (agentBase === undefined || program === undefined) {
    throw faults.agent_profile_not_found({ agent, directory: `${host.kernel.paths.config}/agents` })
  }
  withoutWorktrees(plan.target)
  return { ...plan, agentBase, program }
}

/** Lets other plugins make what the program needs, a worktree for one; what they decided is durable before it starts. */
async function prepare(host: Host, session: Session, launch: Launch): Promise<void> {
  const preparation: Preparation = { sessionId: session.id, plan: launch.plan, cwd: launch.cwd, context: {} }
  await host.hooks.prepare.promise(preparation).catch((failure: unknown) => {
    throw faultOf(failure)
  })
  const { cwd, context } = preparation
  if (cwd !== launch.cwd) await checkDirectory(cwd)
  if (cwd !== launch.cwd || Object.keys(context).length > 0) {
    launch.cwd = cwd
    await host.registry.commit(session, (it) => ({
      ...it,
      launch: { ...it.launch, cwd },
      info: { ...withFields(it.info, context), cwd },
    }))
  }
  crashPoint('create.prepared')
}

async function checkDirectory(cwd: string): Promise<void> {
  const found = await stat(cwd).catch((failure: NodeJS.ErrnoException) => {
    throw faults.cwd_failed({ cwd, problem: failure.code === 'ENOENT' ? 'does not exist' : failure.message }, failure)
  })
  if (!found.isDirectory()) throw faults.cwd_failed({ cwd, problem: 'is not a directory' })
}

function environment(host: Host, launch: Launch, spare: Spare): { base: Environment; profile: Environment } {
  const base = baseEnvironment({
    daemon: {
      ...host.kernel.env,
      ...(launch.program.searchPath === undefined ? {} : { PATH: launch.program.searchPath }),
    },
    allowlist: host.kernel.config.environment.allowlist,
    tmpdir: host.kernel.paths.sessionTmp(spare.sessionId),
  })
  const profile = profileEnvironment(launch.plan.env)
  const problem = environmentProblem({ ...base, ...profile })
  if (problem !== undefined) throw coreFaults.bad_request({ problem })
  return { base, profile }
}

function newRecord(host: Host, launch: Launch, spare: Spare, base: Environment): SessionRecord {
  const { plan, size, name, metadata, cwd, program, prompt } = launch
  const at = new Date(host.kernel.clock.now()).toISOString()
  const generation = String(spare.job.generation)
  const { worker_id } = spare.link.negotiated
  return {
    info: {
      id: spare.sessionId,
      capabilities: { ...plan.capabilities },
      ...(name === undefined ? {} : { name }),
      agent: plan.agent,
      agent_base: plan.agentBase,
      cwd,
      cwd_source: 'launch',
      pid: 0,
      runtime: { state: 'starting', runtime_generation: generation, worker_id },
      ...size,
      state: 'starting',
      state_source: 'process',
      ...(Object.keys(metadata).length === 0 ? {} : { metadata: { ...metadata } }),
      created_at: at,
      updated_at: at,
    },
    intent: 'run',
    launch: {
      executable: program.path,
      args: [...plan.args],
      cwd,
      agent: plan.agent,
      agent_base: plan.agentBase,
      base_env_names: Object.keys(base),
      profile_env_names: Object.keys(plan.env),
      input: inputRulesOf(plan.input),
    },
    worker: {
      worker_id,
      generation: spare.job.generation,
      process: { pid: spare.process.pid, start_identity: spare.process.startIdentity },
      boot_id: host.processes.bootId(),
      launch_daemon_id: host.kernel.daemonId,
    },
    transaction: { kind: 'create', id: `t-${ulid()}`, ...(prompt === undefined ? {} : { initial_input: true }) },
  }
}

function privateTmp(host: Host, sessionId: string): void {
  const path = host.kernel.paths.sessionTmp(sessionId)
  try {
    privateDir(path, host.kernel.paths.cache)
  } catch (failure) {
    throw faults.session_tmpdir_unsafe({ path, problem: messageOf(failure) }, failure)
  }
}

async function initialize(
  host: Host,
  launch: Launch,
  spare: Spare,
  env: { base: Environment; profile: Environment },
  transactionId: string,
): Promise<ResponseOf<'initialized'>> {
  const { workers, input } = host.kernel.config
  const request: Initialize = {
    session_id: spare.sessionId,
    transaction_id: transactionId,
    expected_worker_id: spare.link.negotiated.worker_id,
    launch: { agent: launch.plan.agent, agent_base: launch.plan.agentBase },
    executable: launch.program.path,
    arguments: [...launch.plan.args, ...launch.passed],
    cwd: launch.cwd,
    dimensions: { columns: launch.size.cols, rows: launch.size.rows },
    environment: { ...env.profile },
    base_environment: { ...env.base },
    limits: {
      output_history_bytes: workers.outputHistoryBytes,
      subscriber_queue_bytes: workers.subscriberQueueBytes,
      write_dedup_entries: WRITE_DEDUP_ENTRIES,
      terminal_retention_ms: workers.terminalRetentionMs,
    },
    stop_policy: { grace_ms: workers.stopGraceMs },
    hook_protocol_version: HOOK_PROTOCOL_VERSION,
    public_protocol_version: PROTOCOL_VERSION,
    ...(spare.link.version >= INPUT_STALL_SINCE ? { input_stall_ms: input.writeStallTimeoutMs } : {}),
  }
  try {
    return await spare.link.request(
      'initialize',
      { lease_id: spare.link.leaseId, initialize: request },
      WORKER_INITIALIZE_MS,
    )
  } catch (failure) {
    const fault = workerFault(spare.sessionId, failure, { cwd: launch.cwd })
    if (fault instanceof Fault && fault.code === 'session_runtime_reconnecting') {
      throw faults.worker_operation_failed(
        { id: spare.sessionId, problem: 'the worker ended while it started the program' },
        failure,
      )
    }
    throw fault
  }
}

async function commit(host: Host, session: Session, initialized: ResponseOf<'initialized'>): Promise<void> {
  const at = new Date(host.kernel.clock.now()).toISOString()
  await host.registry.commit(session, (it) => {
    const { transaction, ...record } = it
    return {
      ...record,
      // A prompt that is not delivered yet lives in this daemon's memory only: such a creation is still open.
      ...(transaction?.initial_input === true ? { transaction } : {}),
      worker: { ...it.worker, runtime_id: initialized.runtime_id, child: initialized.child_process },
      info: {
        ...it.info,
        pid: initialized.child_process.pid,
        state: 'running',
        runtime: {
          state: 'live',
          runtime_generation: String(it.worker.generation),
          worker_id: it.worker.worker_id,
          worker_instance_id: initialized.runtime_id,
          started_at: at,
          last_connected_at: at,
        },
      },
    }
  })
  crashPoint('create.committed')
  session.step('committed')
  host.registry.admit(session)
  host.log.info({ session_id: session.id, agent: session.info.agent, pid: session.info.pid }, 'session created')
  host.hooks.created.call(session.info)
  host.registry.tell(session, 'session_created')
  const { earlyExit } = session
  session.earlyExit = undefined
  if (earlyExit !== undefined) programEnded(host, session, earlyExit)
}

async function discard(host: Host, spare: Spare): Promise<void> {
  await host.supply.discard(spare).catch((failure: unknown) => {
    // It ends by itself without a controller; its job is found by the next start.
    host.log.warn({ session_id: spare.sessionId, problem: messageOf(failure) }, 'an unused worker could not be retired')
  })
}

/** Undoes a creation that was not told. What cannot be undone yet is listed as such and tried again. */
async function undo(host: Host, session: Session, examine: Examine): Promise<void> {
  try {
    await finishRemoval(host, session, { accept: false, patience: newPatience(host) })
  } catch (failure) {
    host.registry.admit(session)
    const problem = messageOf(failure)
    host.registry.move(session, 'link_lost', {
      reason: 'create_compensation_pending',
      problem,
      event: 'session_updated',
    })
    examine(session)
  }
}

const definedOnly = (target: {
  [K in keyof LaunchPlan['target']]: LaunchPlan['target'][K] | undefined
}): LaunchPlan['target'] => Object.fromEntries(Object.entries(target).filter(([, value]) => value !== undefined))
