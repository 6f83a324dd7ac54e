/**
 * The inbox as it changes, over daemons that go. The inbox itself is durable, so it is what a watch goes on from: after an
 * interruption it is read and compared with what was known.
 */
import { createHash } from 'node:crypto'
import type { Begun, Client } from './client.ts'
import type { Event, MethodResult } from './methods.ts'
import { isGone, type LastingOptions } from './reconnect.ts'

export type NotificationEvent = Extract<Event, { event: `notification_${string}` }>
type Stored = MethodResult<'notification.list'>['notifications'][number]

const isNotification = (event: Event): event is NotificationEvent => event.event.startsWith('notification_')
const idOf = (event: NotificationEvent): string =>
  event.event === 'notification_deleted' ? event.notification_id : event.record.id
/** The order of keys says nothing: a record read back from disk has another one. */
const sorted = (_key: string, value: unknown): unknown =>
  typeof value === 'object' && value !== null && !Array.isArray(value)
    ? Object.fromEntries(Object.entries(value).sort(([a], [b]) => (a < b ? -1 : 1)))
    : value
/** What a record is recognised by; to hold it whole would cost too much. */
const printOf = (record: Stored): string => createHash('sha256').update(JSON.stringify(record, sorted)).digest('base64')

/**
 * Events from now on. What changed while no daemon was there, or while this program was too slow, is told when it is seen:
 * each notification once, as it is by then.
 */
export async function* watchNotifications(
  client: Client,
  options: LastingOptions,
): AsyncGenerator<NotificationEvent, void, void> {
  /** By id; undefined until the inbox was read once. */
  let known: Map<string, string> | undefined
  let begun: Begun | undefined
  for await (const it of client.subscription(options)) {
    if ('held' in it) begun = it
    if (begun !== undefined && ('held' in it || it.event === 'subscription_gap')) {
      const inbox = await readInbox(client, begun, options.signal)
      if (inbox === undefined) continue // gone again; the next subscription is compared
      const before = known
      known ??= new Map()
      yield* compare(known, inbox, begun.v, before !== undefined)
    } else if (!('held' in it) && isNotification(it)) {
      yield told(known, it)
    }
  }
}

interface Inbox {
  /** Oldest first. */
  readonly records: readonly Stored[]
  /** An event of this subscription says more about these than the list does. */
  readonly moving: ReadonlySet<string>
}

/** undefined when the daemon went meanwhile. */
async function readInbox(client: Client, begun: Begun, signal: AbortSignal | undefined): Promise<Inbox | undefined> {
  try {
    const records: Stored[] = []
    let cursor: string | undefined
    do {
      const page = await client.call('notification.list', cursor === undefined ? null : { cursor }, { signal })
      records.push(...page.notifications)
      cursor = page.next_cursor
    } while (cursor !== undefined)
    // Every event from before the list was sent before this answer: it is among those held by now.
    await client.call('daemon.health', null, { signal })
    return { records: records.reverse(), moving: new Set(begun.held().filter(isNotification).map(idOf)) }
  } catch (failure) {
    if (signal?.aborted === true || isGone(failure)) return undefined
    throw failure
  }
}

/** What the list says that was not known. `tell`: not the first time, so that is news. */
function* compare(
  known: Map<string, string>,
  { records, moving }: Inbox,
  v: number,
  tell: boolean,
): Generator<NotificationEvent, void, void> {
  const listed = new Set(records.map((it) => it.id))
  for (const record of records) {
    const before = known.get(record.id)
    const now = printOf(record)
    if (before === now || (tell && moving.has(record.id))) continue
    known.set(record.id, now)
    if (tell) yield { v, event: before === undefined ? 'notification_created' : 'notification_updated', record }
  }
  for (const id of [...known.keys()]) {
    if (listed.has(id) || moving.has(id)) continue
    known.delete(id)
    yield { v, event: 'notification_deleted', notification_id: id }
  }
}

/** Notes an event. One that was created while nobody watched and changed since is told as created. */
function told(known: Map<string, string> | undefined, event: NotificationEvent): NotificationEvent {
  if (event.event === 'notification_deleted') {
    known?.delete(event.notification_id)
    return event
  }
  const { record } = event
  const isNew = known?.has(record.id) === false && record.status !== 'deleted'
  if (record.status === 'deleted') known?.delete(record.id)
  else known?.set(record.id, printOf(record))
  return isNew && event.event === 'notification_updated' ? { ...event, event: 'notification_created' } : event
}
