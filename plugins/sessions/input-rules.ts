/** Pure conversions between what plugins plan, what a record keeps, and what a session shows. */
import type { InputPlan, SessionContext } from './api.ts'
import type { InputRules } from './record.ts'
import type { SessionInfo } from './types.ts'

/** Pure. `info` with `fields`; the same object when nothing differs. An undefined field is removed. */
export function withFields<T extends SessionContext & { activity?: SessionInfo['activity'] | undefined }>(
  info: SessionInfo,
  fields: T,
): SessionInfo {
  const next: Record<string, unknown> = { ...info }
  let differs = false
  for (const [key, value] of Object.entries(fields)) {
    if (value === undefined ? !(key in next) : JSON.stringify(next[key]) === JSON.stringify(value)) continue
    differs = true
    if (value === undefined) delete next[key]
    else next[key] = value
  }
  return differs ? (next as SessionInfo) : info
}

/** Rules of records made before the newer fields existed are those of a plain program. */
export function inputPlanOf(rules: InputRules): InputPlan {
  return {
    bracketedPaste: rules.bracketed_paste,
    submitDelayMs: rules.submit_delay_ms,
    ready: rules.ready,
    textPolicy: rules.text_policy,
    composer: rules.composer ?? 'none',
    whileWorking: rules.while_working ?? 'queue',
    ...(rules.startup_grace_ms === undefined ? {} : { startupGraceMs: rules.startup_grace_ms }),
  }
}

/** The plan as a record keeps it. */
export function inputRulesOf(plan: InputPlan): InputRules {
  return {
    bracketed_paste: plan.bracketedPaste,
    submit_delay_ms: plan.submitDelayMs,
    text_policy: plan.textPolicy,
    ready: plan.ready,
    composer: plan.composer,
    while_working: plan.whileWorking,
    ...(plan.startupGraceMs === undefined ? {} : { startup_grace_ms: plan.startupGraceMs }),
  }
}
