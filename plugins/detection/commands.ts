/** CLI commands of detection, as data. Imports the contract's types alone. */
import { JSON_FLAG, type Block, type Command, type CommandContext, type TypedCall } from '../../protocol/command.ts'
import type contract from './contract.ts'
import type { SessionExplanation } from './contract.ts'

const plugin = 'detection'
const target = { name: 'target', about: 'session id, unique name or id prefix', session: true }
const typed = (context: CommandContext): TypedCall<typeof contract> =>
  context.call.bind(context) as TypedCall<typeof contract>

const MINUTE_MS = 60_000

/** Pure. `850 ms`, `12 s`, `3 min`. */
function age(ms: number | undefined): string {
  if (ms === undefined) return '-'
  if (ms < 1_000) return `${ms} ms`
  return ms < MINUTE_MS ? `${Math.floor(ms / 1_000)} s` : `${Math.floor(ms / MINUTE_MS)} min`
}

/** Pure. */
export function explanationBlocks(it: SessionExplanation): Block[] {
  const { identity, manifest, pending } = it
  const fields: [string, string][] = [
    ['activity', it.activity ?? 'unknown'],
    ...(it.since === undefined ? [] : [['since', it.since] as [string, string]]),
    ...(it.source === undefined ? [] : [['source', it.source] as [string, string]]),
    ...(it.rule === undefined ? [] : [['rule', `${it.rule.id} (${it.rule.region})`] as [string, string]]),
    ...(pending === undefined
      ? []
      : [['pending', `${pending.activity ?? 'unknown'} for ${age(pending.for_ms)}`] as [string, string]]),
    ['in front', `${identity.in_front}: ${identity.why}`],
    ...(manifest === undefined ? [] : [['manifest', manifest.file] as [string, string]]),
    ...(manifest?.problem === undefined ? [] : [['problem', manifest.problem] as [string, string]]),
  ]
  return [
    { fields },
    ...(it.sources.length === 0
      ? []
      : [
          {
            table: {
              columns: ['SOURCE', 'SAYS', 'AGE', 'COUNTED', 'RULE', 'REGION', 'WHY'],
              rows: it.sources.map((one) => [
                one.source,
                one.says,
                age(one.age_ms),
                one.counted ? 'yes' : 'no',
                one.rule ?? '-',
                one.region ?? '-',
                one.why,
              ]),
            },
          },
        ]),
    ...(it.transitions.length === 0
      ? []
      : [
          {
            table: {
              columns: ['CHANGED', 'TO', 'SOURCE', 'RULE'],
              rows: it.transitions.map((one) => [one.at, one.activity ?? 'unknown', one.source, one.rule ?? '-']),
            },
          },
        ]),
  ]
}

export const sessionExplain: Command = {
  path: ['session', 'explain'],
  about: 'show which evidence leads to the activity of a session',
  arguments: [target],
  flags: [JSON_FLAG],
  json: true,
  plugin,
  async run(context, input) {
    const id = await context.session(input.argument('target') ?? '')
    const ok = await typed(context)('session.explain', { session_id: id })
    return { ok, human: explanationBlocks(ok) }
  },
}

export const sessionDetection: Command = {
  path: ['session', 'detection'],
  about: 'show the regions of the terminal that detection reads',
  arguments: [target],
  flags: [JSON_FLAG],
  json: true,
  plugin,
  async run(context, input) {
    const id = await context.session(input.argument('target') ?? '')
    const ok = await typed(context)('session.detection', { session_id: id })
    return {
      ok,
      human: ok.previews.flatMap(({ region, text }) => [{ line: `${region}:` }, { screen: text.split('\n') }]),
      ...(ok.previews.length === 0 ? { notes: ['no detection manifest reads this session'] } : {}),
    }
  },
}

export const commands: readonly Command[] = [sessionDetection, sessionExplain]
