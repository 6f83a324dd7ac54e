/** Which rules of a manifest a picture fulfils. Pure; what is worked out for a picture is kept as long as the picture. */
import type { AgentActivity } from '../sessions/types.ts'
import { Allowance } from './allowance.ts'
import type { Composer, Gate, Manifest, Rule } from './manifest.ts'
import type { Pattern } from './pattern.ts'
import {
  groupOf,
  regionText,
  spellRegion,
  textToCursor,
  type EvidenceGroup,
  type Picture,
  type Region,
} from './regions.ts'

interface RegionView {
  readonly text: string
  readonly lower: string
  readonly lines: readonly string[]
}

const views = new WeakMap<Picture, Map<string, RegionView>>()

function viewOf(region: Region, picture: Picture): RegionView {
  let known = views.get(picture)
  if (known === undefined) views.set(picture, (known = new Map<string, RegionView>()))
  const name = spellRegion(region)
  let view = known.get(name)
  if (view === undefined) {
    const text = regionText(region, picture)
    known.set(name, (view = { text, lower: text.toLowerCase(), lines: text.split('\n') }))
  }
  return view
}

/** Whether it holds on the picture. An empty region fulfils nothing: absence proves nothing. */
function holds({ region, gate }: Composer, picture: Picture): boolean {
  const view = viewOf(region, picture)
  return view.text.trim() !== '' && gateMatches(gate, view)
}

const matches = ({ regex }: Pattern, texts: readonly string[]): boolean => texts.some((it) => regex.test(it))

function gateMatches(gate: Gate, view: RegionView): boolean {
  return (
    gate.contains.every((it) => view.lower.includes(it)) &&
    gate.lineRegex.every((it) => matches(it, view.lines)) &&
    gate.regex.every((it) => matches(it, [view.text])) &&
    gate.all.every((it) => gateMatches(it, view)) &&
    (gate.any.length === 0 || gate.any.some((it) => gateMatches(it, view))) &&
    !gate.not.some((it) => gateMatches(it, view))
  )
}

/**
 * The rule of highest priority that holds, the first in the file among equals. `state` looks only at rules of that
 * state. Group `title` has the rules on osc_title and osc_progress, `screen` all others. A rule that `time` does not
 * suffice for does not hold; where it is a question and would have been the best, nothing else is taken for sure.
 */
export function bestRule(
  manifest: Manifest,
  picture: Picture,
  group: EvidenceGroup,
  time = new Allowance(),
  state?: AgentActivity,
): Rule | undefined {
  const rules = manifest.rules.filter(
    (it) => groupOf(it.region) === group && (state === undefined || it.state === state),
  )
  let best: Rule | undefined
  const undecided = time.each(manifest, rules, (rule) => {
    if ((best === undefined || rule.priority > best.priority) && holds(rule, picture)) best = rule
  })
  const found = best // no callback changes it any more
  if (found === undefined || found.state === 'blocked') return found
  const outranks = (it: Rule): boolean =>
    it.priority > found.priority || (it.priority === found.priority && rules.indexOf(it) < rules.indexOf(found))
  return undecided.some((it) => it.state === 'blocked' && outranks(it)) ? undefined : found
}

/** Whether the agent's own input box is on the screen; undefined where the manifest does not say how it looks. */
export function showsComposer(manifest: Manifest, picture: Picture, time: Allowance): boolean | undefined {
  const { composer } = manifest
  if (composer === undefined) return undefined
  let shown = false
  time.each(manifest, [composer], (it) => (shown = holds(it, picture)))
  return shown
}

/** A text that stands in the agent's input box; undefined where none is seen for sure. */
export function draftIn(manifest: Manifest, picture: Picture, time: Allowance): string | undefined {
  const draft = manifest.composer?.draft
  if (draft === undefined) return undefined
  const text = textToCursor(draft.region, picture, draft.dimHints && picture.under_cursor === 'plain')
  if (text === undefined) return undefined
  let match: RegExpExecArray | null = null
  time.each(manifest, [draft.pattern], ({ regex }) => {
    match = regex.exec(text)
  })
  const found = match as RegExpExecArray | null // no callback changes it any more
  return found?.[1] ?? found?.[0]
}

/**
 * A question on the screen that `best`, the rule that counts there, hides. `decided`: no rule for one was left out for
 * the time it takes.
 */
export function hiddenQuestion(
  manifest: Manifest,
  picture: Picture,
  best: Rule | undefined,
  time: Allowance,
): { readonly rule: Rule | undefined; readonly decided: boolean } {
  const questions = manifest.rules.filter(
    (it) => it.visibleBlocker && it.priority <= (best?.priority ?? Infinity) && groupOf(it.region) === 'screen',
  )
  let rule: Rule | undefined
  const undecided = time.each(manifest, questions, (it) => {
    if (rule === undefined && holds(it, picture)) rule = it
  })
  return { rule, decided: undecided.length === 0 }
}
