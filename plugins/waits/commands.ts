/** CLI of waits, as data (contract/cli.md "session wait"). Imports the contract's types alone. */
import { JSON_FLAG, type Command, type CommandContext, type Input, type TypedCall } from '../../protocol/command.ts'
import { MAX_TURN_TARGETS, MAX_WAIT_MS, TURN_WAIT_CEILING_MS } from '../../protocol/limits.ts'
import { withRuntimeId } from '../../protocol/window/spelling.ts'
import { AGENT_ACTIVITIES, SESSION_STATES, TURN_KINDS } from '../../protocol/words.ts'
import type contract from './contract.ts'
import type { TurnKind, TurnTarget } from './contract.ts'

const TURN_FLAGS = ['until', 'after', 'timeout'] as const
const CHANGE_FLAGS = [
  'worker-instance-id',
  'runtime-generation',
  'after-updated-at',
  'after-terminal-watermark',
  'after-output-offset',
  'state',
  'activity',
  'fresh',
  'timeout-ms',
] as const

const UNIT_MS: Readonly<Record<string, number>> = { ms: 1, s: 1_000, m: 60_000, h: 3_600_000 }

/** Pure. `90s`, `5m`, `1ms` in milliseconds; undefined without a number, a unit, or within a day. */
export function duration(text: string): number | undefined {
  const [, digits, unit = ''] = /^(\d{1,9})(ms|s|m|h)$/.exec(text) ?? []
  const ms = digits === undefined ? 0 : Number(digits) * (UNIT_MS[unit] ?? 0)
  return ms > 0 && ms <= 24 * 3_600_000 ? ms : undefined
}

const kindsOf = (input: Input): string[] => input.values('until').flatMap((it) => it.split(','))
const isKind = (text: string): text is TurnKind => (TURN_KINDS as readonly string[]).includes(text)

/** Pure. What the flags alone do not show; both modes have their own flags and never mix. */
function problem(input: Input): string | undefined {
  const turn = TURN_FLAGS.filter((it) => input.has(it))
  const change = CHANGE_FLAGS.filter((it) => input.has(it))
  const [firstTurn] = turn
  const [firstChange] = change
  if (firstTurn !== undefined && firstChange !== undefined)
    return `--${firstTurn} waits for turns and --${firstChange} for a change of one session: use one of them`
  const targets = input.arguments('target')
  if (firstChange !== undefined)
    return targets.length > 1 ? 'only a wait for turns takes several sessions' : changeProblem(input)
  if (targets.length > MAX_TURN_TARGETS) return `at most ${MAX_TURN_TARGETS} sessions, not ${targets.length}`
  const unknown = kindsOf(input).find((it) => !isKind(it))
  if (unknown !== undefined)
    return `--until takes ${TURN_KINDS.join(', ')}; not ${JSON.stringify(unknown.slice(0, 60))}`
  const timeout = input.value('timeout')
  if (timeout !== undefined && duration(timeout) === undefined)
    return `--timeout needs a number and a unit, as in 90s or 5m; not ${JSON.stringify(timeout.slice(0, 60))}`
  return undefined
}

function changeProblem(input: Input): string | undefined {
  if (input.has('worker-instance-id') !== input.has('runtime-generation'))
    return '--worker-instance-id and --runtime-generation belong together'
  const needRuntime = ['after-terminal-watermark', 'after-output-offset'].find((it) => input.has(it))
  if (needRuntime !== undefined && !input.has('worker-instance-id'))
    return `--${needRuntime} needs --worker-instance-id and --runtime-generation`
  const predicates = ['after-updated-at', 'after-terminal-watermark', 'after-output-offset', 'state', 'activity']
  return predicates.some((it) => input.has(it)) ? undefined : `name at least one of --${predicates.join(', --')}`
}

const typed = (context: CommandContext): TypedCall<typeof contract> =>
  context.call.bind(context) as TypedCall<typeof contract>

const optional = <K extends string, V>(key: K, value: V | undefined): { [P in K]?: V } =>
  value === undefined ? {} : ({ [key]: value } as { [P in K]?: V })

const sessionWait: Command = {
  path: ['session', 'wait'],
  about: 'wait for the next turn event of sessions, or for one change of a session',
  details: [
    'Without flags, or with --until, --after and --timeout, it waits for the next turn event: turn_completed,',
    'agent_blocked, approval_required or exited. The cursor it prints goes into --after of the next wait, which then',
    'misses nothing in between. The other flags wait for one change of one session, 8 seconds at most.',
    '',
    'Every reason exits 0, a timeout included; read the reason.',
    'A daemon that is restarted meanwhile is waited for, and nothing it records is missed; see attach.conf for how long.',
  ],
  examples: [
    'pohunek session wait fix\tuntil its turn ends, it needs you, or its program ends',
    'pohunek session wait fix docs --until turn_completed --timeout 30m\tof two, the first that is done',
    'pohunek session wait fix --after <cursor>\twhat came behind the cursor of the last wait',
    'pohunek session wait fix --activity idle --activity blocked\tat once when it is there already',
  ],
  arguments: [{ name: 'target', about: 'session ids, unique names or id prefixes', session: true, repeat: true }],
  flags: [
    {
      name: 'until',
      value: 'kinds',
      repeat: true,
      about: 'turn events to wait for, by comma or repeated (default all)',
    },
    { name: 'after', value: 'cursor', about: 'events behind this cursor of an earlier wait' },
    {
      name: 'timeout',
      value: 'time',
      about: 'bound with a unit, as in 90s or 5m (default: 5m, or what the daemon is set to)',
    },
    { name: 'state', value: 'state', repeat: true, choices: SESSION_STATES, about: 'until it is in this state' },
    {
      name: 'activity',
      value: 'activity',
      repeat: true,
      choices: AGENT_ACTIVITIES,
      about: 'until its agent does this',
    },
    { name: 'fresh', about: 'an activity counts only when it is observed from now on' },
    { name: 'after-updated-at', value: 'time', about: 'until it was updated after this time' },
    { name: 'after-terminal-watermark', value: 'n', about: 'until its picture is past this watermark' },
    { name: 'after-output-offset', value: 'n', about: 'until its output is past this offset' },
    { name: 'worker-instance-id', aliases: ['runtime-id'], value: 'id', about: 'of exactly this runtime' },
    { name: 'runtime-generation', value: 'n', about: 'of exactly this runtime' },
    {
      name: 'timeout-ms',
      value: 'ms',
      integer: { minimum: 1, maximum: MAX_WAIT_MS },
      about: `bound of a wait for a change (default ${MAX_WAIT_MS})`,
    },
    JSON_FLAG,
  ],
  json: true,
  plugin: 'waits',
  check: problem,
  run: async (context, input) =>
    CHANGE_FLAGS.some((it) => input.has(it)) ? await waitForChange(context, input) : await waitForTurn(context, input),
}

async function waitForTurn(context: CommandContext, input: Input) {
  const session_ids: string[] = []
  for (const target of input.arguments('target')) session_ids.push(await context.session(target))
  const kinds = kindsOf(input).filter(isKind)
  const timeout_ms = duration(input.value('timeout') ?? '')
  const ok = await typed(context)(
    'session.wait_turn',
    {
      session_ids,
      ...(kinds.length === 0 ? {} : { kinds }),
      ...optional('after', input.value('after')),
      ...optional('timeout_ms', timeout_ms),
    },
    { timeoutMs: (timeout_ms ?? TURN_WAIT_CEILING_MS) + ANSWER_MS, lasting: true },
  )
  const { event } = ok
  const first = event === undefined ? ok.reason : `${event.session_id} ${event.kind} ${event.at}`
  const human = [first, ...ok.targets.map(progressLine), `cursor: ${ok.cursor}`].map((line) => ({ line }))
  return { ok, human }
}

/** The daemon bounds the wait itself; this is for a daemon that does not answer. */
const ANSWER_MS = 5_000

/** Pure. */
function progressLine(it: TurnTarget): string {
  const facts = [
    it.state,
    it.activity ?? '-',
    `output ${it.output_advanced ? 'advanced' : 'unchanged'}`,
    ...(it.last_output_at === undefined ? [] : [`last output ${it.last_output_at}`]),
    ...(it.turn_started_at === undefined ? [] : [`turn started ${it.turn_started_at}`]),
  ]
  return `progress: ${it.session_id} ${facts.join(', ')}`
}

async function waitForChange(context: CommandContext, input: Input) {
  const session_id = await context.session(input.argument('target') ?? '')
  const instance = input.value('worker-instance-id')
  const generation = input.value('runtime-generation')
  const states = input.values('state') as (typeof SESSION_STATES)[number][]
  const activities = input.values('activity') as (typeof AGENT_ACTIVITIES)[number][]
  const timeout_ms = input.integer('timeout-ms') ?? MAX_WAIT_MS
  const ok = await typed(context)(
    'session.wait',
    {
      session_id,
      ...(instance !== undefined && generation !== undefined
        ? { runtime: { worker_instance_id: instance, runtime_generation: generation } }
        : {}),
      ...optional('after_updated_at', input.value('after-updated-at')),
      ...optional('after_terminal_watermark', input.value('after-terminal-watermark')),
      ...optional('after_output_offset', input.value('after-output-offset')),
      ...(states.length === 0 ? {} : { states }),
      ...(activities.length === 0 ? {} : { activities }),
      ...(input.has('fresh') ? { fresh: true } : {}),
      timeout_ms,
    },
    { timeoutMs: timeout_ms + ANSWER_MS, lasting: true },
  )
  const { session } = ok
  return {
    ok: { ...ok, session: withRuntimeId(session) },
    human: [
      { line: `${session.id} ${ok.reason} (${session.state}${session.activity ? `, ${session.activity}` : ''})` },
    ],
  }
}

export const commands: readonly Command[] = [sessionWait]
