/** Which rules of a manifest a picture fulfils. Pure; what is worked out for a picture is kept as long as the picture. */
import type { AgentActivity } from '../sessions/types.ts'
import type { Gate, Manifest, Rule } from './manifest.ts'
import { matchesSome } from './pattern.ts'
import { groupOf, regionText, spellRegion, type EvidenceGroup, type Picture } from './regions.ts'

interface RegionView {
  readonly text: string
  readonly lower: string
  readonly lines: readonly string[]
}

const views = new WeakMap<Picture, Map<string, RegionView>>()

function viewOf(rule: Rule, picture: Picture): RegionView {
  let known = views.get(picture)
  if (known === undefined) views.set(picture, (known = new Map<string, RegionView>()))
  const name = spellRegion(rule.region)
  let view = known.get(name)
  if (view === undefined) {
    const text = regionText(rule.region, picture)
    known.set(name, (view = { text, lower: text.toLowerCase(), lines: text.split('\n') }))
  }
  return view
}

/** Whether the rule holds on the picture. An empty region fulfils no rule: absence proves nothing. */
export function ruleMatches(rule: Rule, picture: Picture): boolean {
  const view = viewOf(rule, picture)
  return view.text.trim() !== '' && gateMatches(rule.gate, view)
}

function gateMatches(gate: Gate, view: RegionView): boolean {
  return (
    gate.contains.every((it) => view.lower.includes(it)) &&
    gate.lineRegex.every((it) => matchesSome(it, view.lines)) &&
    gate.regex.every((it) => matchesSome(it, [view.text])) &&
    gate.all.every((it) => gateMatches(it, view)) &&
    (gate.any.length === 0 || gate.any.some((it) => gateMatches(it, view))) &&
    !gate.not.some((it) => gateMatches(it, view))
  )
}

/**
 * The rule of highest priority that holds, the first in the file among equals. `state` looks only at rules of that
 * state. Group `title` has the rules on osc_title and osc_progress, `screen` all others.
 */
export function bestRule(
  manifest: Manifest,
  picture: Picture,
  group: EvidenceGroup,
  state?: AgentActivity,
): Rule | undefined {
  let best: Rule | undefined
  for (const rule of manifest.rules) {
    if (groupOf(rule.region) !== group || (state !== undefined && rule.state !== state)) continue
    if ((best === undefined || rule.priority > best.priority) && ruleMatches(rule, picture)) best = rule
  }
  return best
}
