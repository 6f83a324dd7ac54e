/** How notifications look on a terminal (contract/cli.md "Human output"). Pure; escaping is the renderer's. */
import type { Block } from '../../protocol/command.ts'
import type { NotificationPolicy, NotificationRecord } from './types.ts'

const COLUMNS = ['HOST', 'STATUS', 'SEVERITY', 'AGE', 'SESSION', 'KIND', 'TITLE'] as const
const UNITS = [
  ['d', 86_400_000],
  ['h', 3_600_000],
  ['m', 60_000],
  ['s', 1_000],
] as const

/** `4d`, `3h`, `12m`, `7s`: whole units, the largest that fits. */
export function age(ms: number): string {
  const [unit, size] = UNITS.find(([, size]) => ms >= size) ?? ['s', 1_000]
  return `${Math.max(0, Math.floor(ms / size))}${unit}`
}

/** The id, which read, ack and the others take, is the last column's neighbour: it is never cut. */
export function listBlocks(records: readonly NotificationRecord[], host: string, nowMs: number): Block[] {
  const rows = records.map((it) => [
    host,
    it.status,
    it.severity,
    age(nowMs - Date.parse(it.created_at)),
    it.session_id ?? '-',
    it.kind,
    it.title,
    it.id,
  ])
  return [{ table: { columns: [...COLUMNS, 'ID'], rows } }]
}

/** One line of `notifications watch`. */
export const watchLine = (it: NotificationRecord, host: string): string =>
  [host, it.status, it.severity, it.session_id ?? '-', it.kind, it.id, it.title].join('  ')

export function policyBlocks(policy: NotificationPolicy): Block[] {
  const { enabled, providers = {}, retention } = policy
  const kinds = Object.keys(enabled) as (keyof typeof enabled)[]
  const fields: [string, string][] = [
    ['attention_dedupe_window_secs', String(policy.attention_dedupe_window_secs)],
    ['attention_debounce_secs', String(policy.attention_debounce_secs)],
    ...Object.entries(retention).map(([key, value]): [string, string] => [`retention.${key}`, String(value)]),
  ]
  const names = Object.keys(providers)
  const rows = kinds.map((kind) => [
    kind,
    String(enabled[kind]),
    ...names.map((name) => String(providers[name]?.[kind])),
  ])
  return [{ table: { columns: ['KIND', 'DEFAULT', ...names.map((it) => it.toUpperCase())], rows } }, { fields }]
}
