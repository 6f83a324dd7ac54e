/**
 * detect.toml: how to read the state of an agent from its terminal (contract/runtime-packages.md §2). Reading is strict;
 * nothing is guessed, and every fault names the file, the rule and the key.
 */
import { parse, TomlError } from 'smol-toml'
import { messageOf } from '../../protocol/fault.ts'
import type { AgentActivity } from '../sessions/types.ts'
import { faults } from './faults.ts'
import { compilePattern, type Pattern } from './pattern.ts'
import { groupOf, parseRegion, type Region } from './regions.ts'

const MAX_FILE_BYTES = 262_144
const MAX_RULES = 128
/** Gates of the whole file, each rule's own one included. */
const MAX_GATES = 512
/** Strings of contains, regex, line_regex, comm and cmdline in the whole file. */
const MAX_MATCHERS = 1_024
const MAX_MATCHER_BYTES = 4_096
/** A rule's own gate is depth 1. */
const MAX_DEPTH = 8
const MAX_ID_BYTES = 128

export interface Manifest {
  /** What the process of the agent is called: any match will do. */
  readonly process: { readonly comm: readonly RegExp[]; readonly cmdline: readonly RegExp[] }
  /** In the order of the file. */
  readonly rules: readonly Rule[]
  /** Shows the agent's own input box, with or without a text in it, whatever the agent does. */
  readonly composer?: Composer
}

export interface Composer {
  readonly region: Region
  readonly gate: Gate
  readonly draft?: Draft
}

/** How a text that stands in the box is told from the hint an empty box may show: left of the cursor there is no hint. */
export interface Draft {
  readonly region: Region
  /** Finds the text in what the region is up to the cursor; group 1 is the text. */
  readonly pattern: Pattern
  /** Hints are drawn dim, so that what is not is a text, right of the cursor too. */
  readonly dimHints: boolean
}

export interface Rule {
  readonly id: string
  readonly state: AgentActivity
  readonly priority: number
  readonly region: Region
  /** What it matches is a question its owner has to answer. */
  readonly visibleBlocker: boolean
  readonly gate: Gate
}

/** Holds when every part of it does. */
export interface Gate {
  /** In lower case; each one is in the text. */
  readonly contains: readonly string[]
  readonly regex: readonly Pattern[]
  /** Each one matches some line. */
  readonly lineRegex: readonly Pattern[]
  readonly all: readonly Gate[]
  /** Holds when it is empty or one of it does. */
  readonly any: readonly Gate[]
  /** None of it holds. */
  readonly not: readonly Gate[]
}

/** A place in the file and what is wrong there. */
class Problem extends Error {
  readonly key: string
  constructor(key: string, message: string) {
    super(message)
    this.key = key
  }
}

type Table = Record<string, unknown>

/** Pure. `file` is only named in faults. Throws invalid_profile. */
export function parseManifest(text: string, file: string): Manifest {
  const bytes = Buffer.byteLength(text)
  if (bytes > MAX_FILE_BYTES) {
    throw faults.invalid_profile({ file, problem: `has ${bytes} bytes, ${MAX_FILE_BYTES} are allowed` })
  }
  let raw: Table
  try {
    raw = parse(text)
  } catch (failure) {
    const problem =
      failure instanceof TomlError ? `line ${failure.line}: ${failure.message.split('\n')[0]}` : 'is nested too deeply'
    throw faults.invalid_profile({ file, problem }, failure)
  }
  try {
    return new Reader().manifest(raw)
  } catch (failure) {
    if (!(failure instanceof Problem)) throw failure
    throw faults.invalid_profile({
      file,
      ...(failure.key === '' ? {} : { key: failure.key }),
      problem: failure.message,
    })
  }
}

/** One pass over a file; counts what the limits bound. */
class Reader {
  #gates = 0
  #matchers = 0

  manifest(raw: Table): Manifest {
    known(raw, ['process', 'composer', 'rules'], '')
    const process = raw['process'] === undefined ? {} : table(raw['process'], 'process')
    known(process, ['comm', 'cmdline'], 'process')
    const rules = raw['rules'] === undefined ? [] : tables(raw['rules'], 'rules')
    if (rules.length > MAX_RULES) throw new Problem('rules', `has ${rules.length} rules, ${MAX_RULES} are allowed`)
    const seen = new Set<string>()
    return {
      process: { comm: this.#names(process, 'comm'), cmdline: this.#names(process, 'cmdline') },
      rules: rules.map((it, index) => {
        const rule = this.#rule(it, `rules[${index}]`)
        if (seen.has(rule.id)) throw new Problem(`rules[${index}].id`, `${JSON.stringify(rule.id)} is used twice`)
        seen.add(rule.id)
        return rule
      }),
      ...(raw['composer'] === undefined ? {} : { composer: this.#composer(table(raw['composer'], 'composer')) }),
    }
  }

  #composer(raw: Table): Composer {
    known(raw, ['region', 'draft', ...GATE_KEYS], 'composer')
    const region = regionOf(raw['region'], 'composer.region')
    if (groupOf(region) === 'title') throw new Problem('composer.region', 'is no region of the screen')
    const draft = raw['draft'] === undefined ? {} : { draft: this.#draft(table(raw['draft'], 'composer.draft')) }
    return { region, gate: this.#gate(raw, 'composer', 1), ...draft }
  }

  #draft(raw: Table): Draft {
    known(raw, ['region', 'regex', 'hint'], 'composer.draft')
    const region = regionOf(raw['region'], 'composer.draft.region')
    if (groupOf(region) === 'title') throw new Problem('composer.draft.region', 'is no region of the screen')
    const [pattern, ...more] = this.#patterns(raw, 'regex', 'composer.draft.regex')
    if (pattern === undefined || more.length > 0) throw new Problem('composer.draft.regex', 'is not one text')
    const { hint } = raw
    if (hint !== undefined && hint !== 'dim') throw new Problem('composer.draft.hint', 'is not "dim"')
    return { region, pattern, dimHints: hint === 'dim' }
  }

  #names(process: Table, key: string): RegExp[] {
    return this.#patterns(process, key, `process.${key}`).map((it) => it.regex)
  }

  #rule(raw: Table, place: string): Rule {
    const id = raw['id']
    if (id === undefined) throw new Problem(`${place}.id`, 'is missing')
    if (typeof id !== 'string' || !/^[\x21-\x7e]+$/.test(id) || id.length > MAX_ID_BYTES) {
      throw new Problem(`${place}.id`, `is no text of 1 to ${MAX_ID_BYTES} printable characters without blanks`)
    }
    const at = `${place} ${JSON.stringify(id)}`
    known(raw, ['id', 'state', 'priority', 'region', 'visible_blocker', ...GATE_KEYS], at)
    return {
      id,
      state: stateOf(raw['state'], `${at}.state`),
      priority: integer(raw['priority'], `${at}.priority`),
      region: regionOf(raw['region'], `${at}.region`),
      visibleBlocker: flag(raw['visible_blocker'], `${at}.visible_blocker`),
      gate: this.#gate(raw, at, 1),
    }
  }

  #gate(raw: Table, place: string, depth: number): Gate {
    if (depth > MAX_DEPTH) throw new Problem(place, `is nested deeper than ${MAX_DEPTH} gates`)
    if (++this.#gates > MAX_GATES) throw new Problem(place, `is one gate more than the ${MAX_GATES} a file may have`)
    if (!GATE_KEYS.some((key) => raw[key] !== undefined)) {
      throw new Problem(place, `matches nothing: one of ${GATE_KEYS.join(', ')} is needed`)
    }
    return {
      contains: this.#texts(raw, 'contains', `${place}.contains`).map((it) => it.toLowerCase()),
      regex: this.#patterns(raw, 'regex', `${place}.regex`),
      lineRegex: this.#patterns(raw, 'line_regex', `${place}.line_regex`),
      all: this.#nested(raw, 'all', place, depth),
      any: this.#nested(raw, 'any', place, depth),
      not: this.#nested(raw, 'not', place, depth),
    }
  }

  #nested(raw: Table, key: 'all' | 'any' | 'not', place: string, depth: number): Gate[] {
    const found = raw[key]
    if (found === undefined) return []
    const at = `${place}.${key}`
    // `not` is one gate; a list of them says that none may hold.
    const list = key === 'not' && !Array.isArray(found) ? [table(found, at)] : tables(found, at)
    if (list.length === 0) throw new Problem(at, 'is empty')
    return list.map((it, index) => {
      const nested = Array.isArray(found) ? `${at}[${index}]` : at
      known(it, GATE_KEYS, nested)
      return this.#gate(it, nested, depth + 1)
    })
  }

  #patterns(raw: Table, key: string, place: string): Pattern[] {
    return this.#texts(raw, key, place).map((source) => {
      try {
        return compilePattern(source)
      } catch (failure) {
        throw new Problem(place, messageOf(failure))
      }
    })
  }

  #texts(raw: Table, key: string, place: string): string[] {
    const found = raw[key]
    if (found === undefined) return []
    const list: unknown[] = Array.isArray(found) ? found : [found]
    if (list.length === 0) throw new Problem(place, 'is empty')
    return list.map((it) => {
      if (typeof it !== 'string') throw new Problem(place, 'is neither a text nor a list of texts')
      if (it === '') throw new Problem(place, 'has an empty text, which every text contains')
      const bytes = Buffer.byteLength(it)
      if (bytes > MAX_MATCHER_BYTES) {
        throw new Problem(place, `has a text of ${bytes} bytes, ${MAX_MATCHER_BYTES} are allowed`)
      }
      if (++this.#matchers > MAX_MATCHERS) {
        throw new Problem(place, `is one matcher more than the ${MAX_MATCHERS} a file may have`)
      }
      return it
    })
  }
}

const GATE_KEYS = ['contains', 'regex', 'line_regex', 'all', 'any', 'not'] as const

const isTable = (it: unknown): it is Table =>
  typeof it === 'object' && it !== null && !Array.isArray(it) && !(it instanceof Date)

function table(it: unknown, place: string): Table {
  if (!isTable(it)) throw new Problem(place, 'is not a table')
  return it
}

function tables(it: unknown, place: string): Table[] {
  if (!Array.isArray(it)) throw new Problem(place, 'is not a list of tables')
  return it.map((one, index) => table(one, `${place}[${index}]`))
}

function known(raw: Table, keys: readonly string[], place: string): void {
  const unknown = Object.keys(raw).find((key) => !keys.includes(key))
  if (unknown === undefined) return
  const name = /^[A-Za-z0-9_-]{1,64}$/.test(unknown) ? unknown : JSON.stringify(unknown.slice(0, 64))
  throw new Problem(place === '' ? name : `${place}.${name}`, 'unknown key')
}

function stateOf(it: unknown, place: string): AgentActivity {
  if (it === 'working' || it === 'blocked' || it === 'idle') return it
  throw new Problem(place, it === undefined ? 'is missing' : 'is none of working, blocked, idle')
}

function integer(it: unknown, place: string): number {
  if (typeof it === 'number' && Number.isSafeInteger(it)) return it
  throw new Problem(place, it === undefined ? 'is missing' : 'is not an integer')
}

function flag(it: unknown, place: string): boolean {
  if (it === undefined || typeof it === 'boolean') return it === true
  throw new Problem(place, 'is neither true nor false')
}

function regionOf(it: unknown, place: string): Region {
  const region = typeof it === 'string' ? parseRegion(it) : undefined
  if (region !== undefined) return region
  throw new Problem(
    place,
    it === undefined
      ? 'is missing'
      : typeof it === 'string'
        ? `unknown region ${JSON.stringify(it.slice(0, 64))}`
        : 'is not a text',
  )
}
