/** CLI commands of notifications (contract/cli.md). Imports the contract's types alone: no schema is loaded. */
import {
  JSON_FLAG,
  type Command,
  type CommandContext,
  type Flag,
  type Input,
  type Outcome,
  type TypedCall,
} from '../../protocol/command.ts'
import { Fault } from '../../protocol/fault.ts'
import { NOTIFICATION_KINDS, NOTIFICATION_SEVERITIES } from '../../protocol/words.ts'
import type contract from './contract.ts'
import type { KindPolicy, NotificationPolicy, NotificationRecord, NotificationStatus } from './types.ts'
import { listBlocks, policyBlocks } from './views.ts'

export { watchLine } from './views.ts'

const U32 = { minimum: 1, maximum: 4_294_967_295 }
const STATUSES = ['unread', 'read', 'acknowledged', 'archived', 'deleted'] as const
const PROVIDERS = ['default', 'codex', 'claude', 'hermes'] as const
const LOCAL = 'local'

const plugin = 'notifications'
const typed = (context: CommandContext): TypedCall<typeof contract> =>
  context.call.bind(context) as TypedCall<typeof contract>
const present = <K extends string, V>(key: K, value: V | undefined): { [P in K]?: V } =>
  value === undefined ? {} : ({ [key]: value } as { [P in K]?: V })

const ALL_HOSTS: Flag = { name: 'all-hosts', about: 'ask every host; this release knows the local one' }
const STATUS: Flag = { name: 'status', value: 'status', choices: STATUSES, about: 'only of this status' }
const KIND: Flag = { name: 'kind', value: 'kind', choices: NOTIFICATION_KINDS, about: 'only of this kind' }

/** Every record that matches, page after page; with `--limit` one page and where it goes on. */
async function pages(context: CommandContext, input: Input): Promise<{ records: NotificationRecord[]; next?: string }> {
  const call = typed(context)
  const filter = {
    ...present('status', input.has('unread') ? 'unread' : (input.value('status') as NotificationStatus | undefined)),
    ...present('kind', input.value('kind') as (typeof NOTIFICATION_KINDS)[number] | undefined),
    ...present('severity', input.value('severity') as (typeof NOTIFICATION_SEVERITIES)[number] | undefined),
    ...present('provider', input.value('provider')),
    ...present('session_id', await sessionId(context, input.value('session'))),
    ...present('limit', input.integer('limit')),
  }
  const records: NotificationRecord[] = []
  let cursor = input.value('cursor')
  do {
    const page = await call('notification.list', { ...filter, ...present('cursor', cursor) })
    records.push(...page.notifications)
    cursor = page.next_cursor
  } while (cursor !== undefined && !input.has('limit'))
  return { records, ...present('next', cursor) }
}

/** A notification may outlive its session: an id that no session has any more is taken as it is. */
async function sessionId(context: CommandContext, target: string | undefined): Promise<string | undefined> {
  if (target === undefined) return undefined
  try {
    return await context.session(target)
  } catch (failure) {
    if (failure instanceof Fault && failure.code === 'session_not_found') return target
    throw failure
  }
}

export const notificationsList: Command = {
  path: ['notifications', 'list'],
  aliases: ['ls'],
  about: 'list notifications, newest first',
  examples: [
    'pohunek notifications list --unread\twhat still needs a look',
    'pohunek notifications list --session fix --kind error\twhat went wrong there',
  ],
  details: ['Deleted ones are listed with --status deleted only. --cursor takes the last id of the page before.'],
  arguments: [],
  flags: [
    ALL_HOSTS,
    { name: 'unread', about: 'only unread ones' },
    STATUS,
    KIND,
    { name: 'severity', value: 'severity', choices: NOTIFICATION_SEVERITIES, about: 'only of this severity' },
    { name: 'agent', value: 'name', about: 'only of this runtime' },
    { name: 'provider', value: 'name', about: 'only from this reporter' },
    { name: 'session', value: 'target', about: 'only of this session' },
    { name: 'limit', value: 'n', integer: U32, about: 'at most so many' },
    { name: 'cursor', value: 'id', about: 'only behind this one' },
    JSON_FLAG,
  ],
  exclusive: [['unread', 'status']],
  json: true,
  plugin,
  async run(context, input): Promise<Outcome> {
    const { records, next } = await pages(context, input)
    const agent = input.value('agent')
    const shown = agent === undefined ? records : records.filter((it) => it.agent_kind === agent)
    const ok = input.has('all-hosts') ? shown.map((it) => ({ host: LOCAL, ...it })) : shown
    const more = next === undefined ? [] : [`more remain; --cursor ${next} goes on`]
    const notes = shown.length === 0 ? ['no notifications', ...more] : more
    return { ok, human: listBlocks(shown, LOCAL, Date.now()), notes }
  },
}

/** `<id>` or `local/<id>`. Throws host_unknown. */
function notificationId(text: string): string {
  const at = text.indexOf('/')
  if (at < 0) return text
  const host = text.slice(0, at)
  if (host !== LOCAL) {
    throw new Fault({
      class: 'discovery',
      code: 'host_unknown',
      msg: `no host ${JSON.stringify(host)}`,
      recover: 'this release reaches the local daemon only: leave the host out',
    })
  }
  return text.slice(at + 1)
}

function onNotification(
  name: string,
  about: string,
  run: (context: CommandContext, id: string) => Promise<Outcome>,
): Command {
  return {
    path: ['notifications', name],
    about,
    arguments: [{ name: 'id', about: 'id of the notification, or local/<id>' }],
    flags: [JSON_FLAG],
    json: true,
    plugin,
    run: (context, input) => run(context, notificationId(input.argument('id') ?? '')),
  }
}

const moving = (name: string, about: string, status: NotificationStatus): Command =>
  onNotification(name, about, async (context, id) => {
    const ok = await typed(context)('notification.update', { id, status })
    return { ok, human: [{ line: `notification ${id}: ${ok.record.status}` }] }
  })

export const notificationsDelete = onNotification('delete', 'delete a notification', async (context, id) => {
  const ok = await typed(context)('notification.delete', { id })
  return { ok, human: [{ line: `notification ${id}: deleted=${ok.deleted}` }] }
})

export const policyGet: Command = {
  path: ['notifications', 'policy', 'get'],
  about: 'show which notifications are kept, and how long',
  arguments: [],
  flags: [ALL_HOSTS, JSON_FLAG],
  json: true,
  plugin,
  async run(context): Promise<Outcome> {
    const ok = await typed(context)('notification.policy.get', null)
    return { ok, human: policyBlocks(ok.policy) }
  },
}

/** Pure. The policy with one kind switched, for one provider or for all without an entry of their own. */
function switched(
  policy: NotificationPolicy,
  provider: string | undefined,
  kind: keyof KindPolicy,
  enabled: boolean,
): NotificationPolicy {
  const change = (kinds: KindPolicy): KindPolicy => ({ ...kinds, [kind]: enabled })
  if (provider === undefined || provider === 'default') return { ...policy, enabled: change(policy.enabled) }
  const own = policy.providers?.[provider] ?? policy.enabled
  return { ...policy, providers: { ...policy.providers, [provider]: change(own) } }
}

export const policySet: Command = {
  path: ['notifications', 'policy', 'set'],
  about: 'keep or drop notifications of a kind',
  examples: [
    'pohunek notifications policy set --kind turn_completed --enabled\talso tell the end of each turn',
    'pohunek notifications policy set --provider codex --kind error --disabled\tnone of these from one reporter',
  ],
  arguments: [],
  flags: [
    {
      name: 'provider',
      value: 'name',
      choices: PROVIDERS,
      about: 'whose notifications (default: those without an entry)',
    },
    { name: 'kind', value: 'kind', choices: NOTIFICATION_KINDS, about: 'the kind' },
    { name: 'enabled', about: 'keep them' },
    { name: 'disabled', about: 'drop them' },
    ALL_HOSTS,
    JSON_FLAG,
  ],
  exclusive: [['enabled', 'disabled']],
  json: true,
  plugin,
  check: (input) => {
    if (!input.has('kind')) return 'notifications policy set needs --kind'
    return input.has('enabled') || input.has('disabled')
      ? undefined
      : 'notifications policy set needs --enabled or --disabled'
  },
  async run(context, input): Promise<Outcome> {
    const call = typed(context)
    const { policy } = await call('notification.policy.get', null)
    const kind = input.value('kind') as keyof KindPolicy
    const ok = await call('notification.policy.set', {
      policy: switched(policy, input.value('provider'), kind, input.has('enabled')),
    })
    return { ok, human: policyBlocks(ok.policy) }
  },
}

export const retentionPrune: Command = {
  path: ['notifications', 'retention', 'prune'],
  about: 'delete notifications whose time is over, or those named',
  arguments: [],
  flags: [
    { name: 'dry-run', about: 'only show which' },
    { name: 'apply', about: 'delete them' },
    STATUS,
    { name: 'before', value: 'time', about: 'only those created before this time (RFC 3339)' },
    { name: 'limit', value: 'n', integer: U32, about: 'at most so many, the oldest' },
    ALL_HOSTS,
    JSON_FLAG,
  ],
  exclusive: [['dry-run', 'apply']],
  json: true,
  plugin,
  check: (input) =>
    input.has('dry-run') || input.has('apply') ? undefined : 'notifications retention prune needs --dry-run or --apply',
  async run(context, input): Promise<Outcome> {
    const ok = await typed(context)('notification.retention.prune', {
      dry_run: input.has('dry-run'),
      ...present('status', input.value('status') as NotificationStatus | undefined),
      ...present('before', input.value('before')),
      ...present('limit', input.integer('limit')),
    })
    const what = ok.dry_run ? 'would be pruned' : 'pruned'
    return { ok, human: [...ok.pruned.map((line) => ({ line })), { line: `${ok.pruned.length} ${what}` }] }
  },
}

export const commands: readonly Command[] = [
  notificationsList,
  moving('read', 'mark a notification as read', 'read'),
  moving('ack', 'acknowledge a notification', 'acknowledged'),
  moving('archive', 'archive a notification', 'archived'),
  notificationsDelete,
  policyGet,
  policySet,
  retentionPrune,
]
