/** How session objects look on a terminal (contract/cli.md "Human output"). Pure; escaping is the renderer's. */
import type { Block } from '../../protocol/command.ts'
import type { SessionInfo } from './types.ts'

export const absent = (value: string | number | boolean | undefined): string =>
  value === undefined || value === '' ? '-' : String(value)

export const LIST_COLUMNS = [
  'ID',
  'NAME',
  'AGENT',
  'ORIGIN',
  'STATE',
  'ACTIVITY',
  'SOURCE',
  'PID',
  'SIZE',
  'PROJECT',
  'BRANCH',
  'WARN',
  'CWD',
] as const

export function listBlocks(sessions: readonly SessionInfo[]): Block[] {
  const rows = sessions.map((it) => [
    it.id,
    absent(it.name),
    absent(it.agent),
    it.external === true ? 'external' : 'managed',
    absent(it.state),
    absent(it.activity),
    absent(it.state_source),
    absent(it.pid || undefined),
    `${it.cols}x${it.rows}`,
    absent(it.project_label ?? it.project_id),
    absent(it.branch),
    it.warnings !== undefined && it.warnings.length > 0 ? String(it.warnings.length) : '-',
    it.cwd_missing === true ? `${it.cwd} (missing)` : absent(it.cwd),
  ])
  const hints = sessions.flatMap((it) =>
    (it.warnings ?? [])
      .filter((warning) => warning.kind === 'native_recovery')
      .map((warning) => ({ line: `${it.id}: ${warning.message}` })),
  )
  return [{ table: { columns: LIST_COLUMNS, rows } }, ...hints]
}

const FIELDS = [
  'active_agent',
  'active_agent_base',
  'cwd',
  'cwd_source',
  'cwd_missing',
  'pid',
  'cols',
  'rows',
  'state',
  'state_source',
  'activity',
  'exit_code',
  'output_force_closed',
  'project_id',
  'project_label',
  'repo',
  'branch',
  'worktree_path',
] as const
/** Rows that are shown even when there is nothing to show. */
const ALWAYS: ReadonlySet<string> = new Set(['cwd', 'pid', 'cols', 'rows', 'state', 'activity', 'branch'])

export function inspectBlocks(info: SessionInfo): Block[] {
  const external = info.external === true
  const { runtime } = info
  const fields: [string, string][] = [
    ['id', info.id],
    ['external', String(external)],
    ['read_only', String(external)],
    ['name', absent(info.name)],
    ['agent', absent(info.agent)],
    ['agent_base', absent(info.agent_base)],
  ]
  for (const field of FIELDS) {
    if (info[field] !== undefined || ALWAYS.has(field)) fields.push([field, absent(info[field])])
  }
  if (runtime !== undefined) {
    fields.push(['runtime_state', runtime.state], ['runtime_generation', runtime.runtime_generation])
    if (runtime.worker_instance_id !== undefined) fields.push(['worker_instance_id', runtime.worker_instance_id])
    if (runtime.loss_reason !== undefined) fields.push(['loss_reason', runtime.loss_reason])
  }
  for (const [key, value] of Object.entries(info.metadata ?? {})) fields.push([`metadata.${key}`, value])
  const warnings = info.warnings ?? []
  fields.push(['warnings', String(warnings.length)], ['created_at', info.created_at], ['updated_at', info.updated_at])
  return [
    { fields },
    ...warnings.map((it) => ({
      line: `warning (${it.kind}): ${it.message}${it.detail === undefined ? '' : ` (${it.detail})`}`,
    })),
  ]
}
