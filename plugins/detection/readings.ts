/** What the rules of a manifest say about one picture: the best title rule and the best screen rule. Pure. */
import type { AgentActivity } from '../sessions/types.ts'
import { Allowance } from './allowance.ts'
import type { Manifest, Rule } from './manifest.ts'
import { bestRule, draftIn, hiddenQuestion, showsComposer } from './match.ts'
import { groupOf, spellRegion, type Picture } from './regions.ts'

export interface Reading {
  readonly rule: string
  /** As the manifest spells it. */
  readonly region: string
  readonly state: AgentActivity
  /** The rule marks a question its owner has to answer. */
  readonly question: boolean
}

export interface Readings {
  readonly title: (Reading & { readonly source: 'osc_title' | 'osc_progress' }) | undefined
  readonly screen: Reading | undefined
  /** Some screen rule can say idle; where none can, an idle title is all there is. */
  readonly knowsIdleScreen: boolean
  /** The agent's own input box is on the screen; undefined where the manifest does not say how it looks. */
  readonly composer: boolean | undefined
  /** A text that stands in that box; undefined: none is seen for sure. */
  readonly draft: string | undefined
  /** A question on the screen, also one that a rule of higher priority hides from `screen`. */
  readonly asked: Reading | undefined
}

export const NOTHING_READ: Readings = {
  title: undefined,
  screen: undefined,
  knowsIdleScreen: true,
  composer: undefined,
  draft: undefined,
  asked: undefined,
}

const readingOf = (rule: Rule): Reading => ({
  rule: rule.id,
  region: spellRegion(rule.region),
  state: rule.state,
  question: rule.visibleBlocker,
})

/** Reads `picture`. Priorities decide within a group; how the groups weigh against each other is weigh.ts. */
export function readPicture(manifest: Manifest, picture: Picture): Readings {
  const time = new Allowance()
  const title = bestRule(manifest, picture, 'title', time)
  const screen = bestRule(manifest, picture, 'screen', time)
  const hidden = screen?.visibleBlocker === true ? undefined : hiddenQuestion(manifest, picture, screen, time)
  const asked = hidden === undefined ? screen : hidden.rule
  const composer = showsComposer(manifest, picture, time) && hidden?.decided !== false
  return {
    title: title && {
      ...readingOf(title),
      source: title.region.kind === 'osc_progress' ? 'osc_progress' : 'osc_title',
    },
    screen: screen && readingOf(screen),
    knowsIdleScreen: manifest.rules.some((it) => it.state === 'idle' && groupOf(it.region) === 'screen'),
    composer,
    draft: composer === true ? draftIn(manifest, picture, time) : undefined,
    asked: asked && readingOf(asked),
  }
}

/**
 * The manifest of a plain shell: what a program without an agent prints is a text and no state, so only what it tells
 * the terminal (title, progress) counts.
 */
export const titlesOnly = (manifest: Manifest): Manifest => ({
  ...manifest,
  rules: manifest.rules.filter((it) => groupOf(it.region) === 'title'),
})
