/** Wires the notifications plugin; what each part does is said there. */
import { join } from 'node:path'
import { SyncHook } from 'tapable'
import { ulid } from 'ulid'
import { informing } from '../../kernel/hooks.ts'
import { definePlugin, type SetupContext } from '../../kernel/plugin.ts'
import { privateDir } from '../../kernel/secure-files.ts'
import { openTables, type RecordStore } from '../../kernel/store/record-log.ts'
import { pinnedProcesses } from '../../platform/index.ts'
import { Detection } from '../detection/api.ts'
import { Sessions } from '../sessions/api.ts'
import { Notifications, type SettledReport } from './api.ts'
import contract from './contract.ts'
import { Delivery } from './delivery.ts'
import { Inbox } from './inbox.ts'
import { Marks } from './marks.ts'
import { addKept, create } from './methods/create.ts'
import { deleteOne } from './methods/delete.ts'
import { list } from './methods/list.ts'
import { getPolicy, setPolicy } from './methods/policy.ts'
import { prune } from './methods/prune.ts'
import { update } from './methods/update.ts'
import { Moments } from './moments.ts'
import { keeps, PolicyFile } from './policy.ts'
import { project } from './projector.ts'
import { runCommand } from './run-command.ts'
import { Retries } from './retries.ts'
import { heldTable, markTable, SCHEMA } from './stored.ts'
import { Sweeper } from './sweeper.ts'
import type { CreateParams } from './types.ts'
import { Work } from './work.ts'

const MAX_ID_MS = 2 ** 48 - 1

const needs = { sessions: Sessions, detection: Detection }

export default definePlugin({
  contract,
  needs,
  provides: Notifications,
  stores: ({ data }) =>
    ['notifications.jsonl', 'pending.jsonl'].map((it) => ({ file: join(data, 'notifications', it), ...SCHEMA })),
  setup(context) {
    const { kernel, scope, log } = context
    const { clock, config, env, lifecycle } = kernel
    const { sessions, detection } = context.needs
    const directory = join(kernel.paths.data, 'notifications')
    privateDir(directory)
    const policy = new PolicyFile(join(directory, 'policy.json'))
    policy.load()
    if (policy.problem !== undefined)
      log.warn({ problem: policy.problem }, 'the notification policy cannot be used; the defaults hold')
    const records = openLog(
      context,
      join(directory, 'notifications.jsonl'),
      () => policy.now.retention.compaction_min_actions,
    )
    const pending = openLog(context, join(directory, 'pending.jsonl'))

    const hooks = Object.freeze({
      settled: informing(new SyncHook<[SettledReport]>(['report']), 'settled', (failure) =>
        log.error({ err: failure }, 'a hook failed'),
      ),
    })
    const work = new Work(log)
    // Released after what starts work and before the logs it writes.
    scope.defer('work', () => work.idle())
    // The time in an id is neither before 1970 nor beyond 48 bits, whatever the clock says.
    const mint = (): string => `n-${ulid(Math.min(Math.max(1, clock.now()), MAX_ID_MS))}`
    const inbox: Inbox = new Inbox(records, clock, log, work, {
      created(record) {
        context.publish('notification_created', { record })
        delivery.add(record)
      },
      updated: (record) => context.publish('notification_updated', { record }),
      deleted: (id) => context.publish('notification_deleted', { notification_id: id }),
      isAnnounced: (record) => delivery.isFor(record),
    })
    const { command, kinds, timeoutMs } = config.notify
    const delivery: Delivery = new Delivery({
      inbox,
      command,
      kinds,
      run: (input, signal) => runCommand({ command, env, input, timeoutMs, clock, processes: pinnedProcesses, signal }),
      clock,
      scope: scope.child('delivery'),
      log,
      work,
    })
    const retries = new Retries(log, scope.child('retries'))
    const add = (params: CreateParams): Promise<unknown> =>
      retries.write(`add ${params.source_id}`, () => addKept(creation, params))
    const moments = new Moments({
      inbox,
      marks: new Marks(pending.table(markTable), retries, (id) => sessions.get(id) !== undefined),
      retries,
      held: pending.table(heldTable),
      policy,
      sessions,
      clock,
      log,
      scope: scope.child('windows'),
      work,
      mint,
      settled: (report) => hooks.settled.call(report),
      add,
    })
    const sweeper = new Sweeper(inbox, policy, clock, scope.child('retention'), log, work)
    const creation = { inbox, moments, policy, sessions, mint }
    project({
      moments,
      keeps: (provider, kind) => keeps(policy.now, provider, kind),
      add,
      sessions,
      detection,
      work,
    })
    // Detection forgets what was stored of activities; here it still says whose turn was not over.
    lifecycle.load.tap({ name: 'notifications', before: 'detection' }, () => moments.remember(sessions.list()))
    lifecycle.load.tapPromise('notifications', async () => {
      await records.load()
      await pending.load()
      inbox.load()
      moments.recall()
    })
    lifecycle.ready.tapPromise('notifications', async () => {
      await moments.restore((id) => detection.current(id)?.activity)
      sweeper.start()
      delivery.resume()
    })
    lifecycle.drain.tapPromise('notifications', async () => {
      await work.idle()
      await retries.flush()
      if (retries.size > 0) log.error({ writes: retries.size }, 'what the disk did not take is lost')
    })
    addChecks(context, { policy, delivery, stores: [records, pending] })
    return {
      service: {
        hooks,
        debounceMs: () => policy.debounceMs,
        hasUnread: (id) => moments.isHeld(id) || inbox.ofSession(id).some((it) => it.status === 'unread'),
      },
      methods: {
        'notification.create': create(creation),
        'notification.list': list(inbox),
        'notification.update': update(inbox),
        'notification.delete': deleteOne(inbox),
        'notification.policy.get': getPolicy(policy),
        'notification.policy.set': setPolicy(policy, () => {
          sweeper.arm()
          moments.rearm()
        }),
        'notification.retention.prune': prune(inbox, policy, clock),
      },
    }
  },
})

type Context = SetupContext<typeof contract, typeof needs>

function openLog({ kernel: { clock }, log, scope }: Context, file: string, minDeadLines?: () => number): RecordStore {
  const store = openTables({ file, ...SCHEMA, clock, log, ...(minDeadLines === undefined ? {} : { minDeadLines }) })
  scope.defer(file, () => store.close())
  return store
}

interface Checked {
  readonly policy: PolicyFile
  readonly delivery: Delivery
  readonly stores: readonly RecordStore[]
}

function addChecks({ kernel, scope }: Context, { policy, delivery, stores }: Checked): void {
  const checks = [
    { name: 'notify_command', required: false, run: () => delivery.health() },
    {
      name: 'notification_policy',
      required: false,
      run: () =>
        policy.problem === undefined
          ? ({ status: 'ok', detail: 'in force as stored' } as const)
          : ({ status: 'warn', detail: `${policy.problem}; the defaults hold until the policy is set again` } as const),
    },
    {
      name: 'notification_store',
      required: false,
      run: () => {
        const aside = stores.reduce((sum, it) => sum + it.quarantined.length, 0)
        return aside === 0
          ? ({ status: 'ok', detail: 'every stored record was read' } as const)
          : ({ status: 'warn', detail: `${aside} stored lines could not be read and were set aside` } as const)
      },
    },
  ]
  for (const check of checks) scope.own(check.name, kernel.diagnostics.add(check))
}
