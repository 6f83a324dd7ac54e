import type { Clock } from '../../../kernel/clock.ts'
import type { Handler } from '../../../kernel/plugin.ts'
import type contract from '../contract.ts'
import type { Inbox } from '../inbox.ts'
import { timestampMs } from '../list.ts'
import type { PolicyFile } from '../policy.ts'
import { isPruned } from '../retention.ts'

/** Oldest first. Deleted records, when named by status, leave the log for good. */
export const prune =
  (
    inbox: Inbox,
    policy: PolicyFile,
    clock: Clock,
  ): Handler<(typeof contract.methods)['notification.retention.prune']> =>
  async (params) => {
    const { dry_run = false, status, before, limit } = params ?? {}
    const beforeMs = before === undefined ? undefined : timestampMs('before', before)
    const found = inbox
      .sorted()
      .filter((it) => isPruned(it, { status, beforeMs }, policy.now.retention, clock.now()))
      .reverse()
      .slice(0, limit)
    if (!dry_run) await (status === 'deleted' ? inbox.forget(found) : inbox.delete(found))
    return { dry_run, pruned: found.map((it) => it.id) }
  }
