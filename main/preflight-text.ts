/** The preflight report for people. Pure. */
import { SUPPORTED_VERSIONS, type VersionRange } from '../protocol/version.ts'
import { READABLE_JOURNAL_SCHEMAS } from '../protocol/worker/files.ts'
import { WORKER_PROTOCOL } from '../protocol/worker/messages.ts'
import type { PreflightReport } from './preflight.ts'
import type { SessionVerdict } from './preflight-verdict.ts'

const range = ({ minimum, maximum }: VersionRange): string => `${minimum}..=${maximum}`
/** What a name or a path may hold must not act on the terminal. */
const printable = (text: string): string => text.replace(/[\p{Cc}\p{Cf}\u2028\u2029]/gu, '?')

/** Lines with their newlines: first what was found, then what is at risk, last whether the upgrade may be made. */
export function preflightText(report: PreflightReport): string {
  const { store, sessions, stopped_sessions, unmanaged_workers } = report
  const risks = [...sessions, ...stopped_sessions].filter((it) => it.verdict !== 'adoptable')
  const lines = [
    `store        ${storeText(store)}`,
    `protocols    public ${range(SUPPORTED_VERSIONS)}, worker ${range(WORKER_PROTOCOL)}, journals ${READABLE_JOURNAL_SCHEMAS.join(' and ')}`,
    `sessions     ${countText(sessions, 'live')}`,
    `stopped      ${countText(stopped_sessions, 'resumable')}`,
    ...risks.map(riskText),
    ...unmanaged_workers.map((it) => `  ${it.session_id}  unmanaged  ${it.code}: ${printable(it.detail)}`),
    ...(store.state === 'refused' || risks.length > 0 ? [] : ['nothing keeps this daemon from taking over']),
  ]
  return `${lines.join('\n')}\n`
}

function storeText({ state, schema_from, schema_to, records, error_code }: PreflightReport['store']): string {
  const held = `${records} ${records === 1 ? 'record' : 'records'}`
  switch (state) {
    case 'missing':
      return `missing: a start makes an empty one of schema ${schema_to}`
    case 'up_to_date':
      return `up to date: schema ${schema_to}, ${held}`
    case 'would_migrate':
      return `a start migrates it from schema ${schema_from ?? schema_to} to ${schema_to} after a backup: ${held}`
    case 'refused':
      return `refused: ${error_code ?? 'unknown'}`
  }
}

function countText(verdicts: readonly SessionVerdict[], what: string): string {
  const atRisk = verdicts.filter((it) => it.verdict !== 'adoptable').length
  return `${verdicts.length} ${what}, ${atRisk} at risk`
}

function riskText({ session_id, name, verdict, code, detail }: SessionVerdict): string {
  const named = name === undefined ? session_id : `${session_id} (${printable(name)})`
  return `  ${named}  ${verdict}  ${code ?? ''}: ${printable(detail ?? '')}`
}
