/** Params against their schema, with messages that name the key and never quote the value. Pure. */
import * as v from 'valibot'
import type { Schema } from '../protocol/contract.ts'
import { coreFaults } from '../protocol/fault.ts'

type Issue = v.BaseIssue<unknown>
// One problem is told; finding the others would cost time on hostile input.
const FIRST_ONLY = { abortEarly: true } as const

/** The typed params, defaults filled in. Throws Fault bad_request naming the key path. */
export function parseParams(schema: Schema, params: unknown): unknown {
  const parsed = v.safeParse(schema, params, FIRST_ONLY)
  if (parsed.success) return parsed.output
  throw coreFaults.bad_request({ problem: problemIn(parsed.issues, 'params') })
}

/** The first problem, e.g. `params.cols: expected number`. A value is never part of it: it may be a secret. */
export function problemIn(issues: readonly Issue[], root: string): string {
  const [issue] = issues
  if (issue === undefined) return `${root}: invalid`
  const path = v.getDotPath(issue)
  return `${path === null ? root : `${root}.${path}`}: ${describe(issue)}`
}

function describe(issue: Issue): string {
  // valibot's own texts quote the received value; those written in contracts do not.
  if (!issue.message.startsWith('Invalid ')) return issue.message
  if (issue.kind === 'schema') {
    if (issue.type === 'strict_object' && issue.expected === 'never') return 'unknown key'
    if (issue.received === 'undefined') return 'missing'
    if (issue.expected === null) return 'invalid'
    return `expected ${issue.expected === 'null' ? 'nothing' : issue.expected}`
  }
  return issue.expected === null ? `invalid ${issue.type}` : `must be ${issue.expected}`
}
