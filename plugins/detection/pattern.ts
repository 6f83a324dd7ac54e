/**
 * Regular expressions of detection manifests. They come from files of the host and run in the daemon, so that
 *  1. only the regular subset is taken: no look-around, no back reference;
 *  2. a repetition without bound inside another is refused when the file is read: such a pattern can take exponential
 *     time on a text of forty characters; so are many optional parts, which take it to be made ready;
 *  3. what is left is at worst polynomial, and `matchesSome` gives it a time limit where that could be noticed.
 */
import { createContext, Script, type Context } from 'node:vm'
import { messageOf } from '../../protocol/fault.ts'

export interface Pattern {
  /** As written in the file. */
  readonly source: string
  readonly regex: RegExp
  /** The most steps that a text of so many characters can take, by what the pattern could try. */
  readonly worst: (length: number) => number
}

/** One look at one region may take so long: hundreds of times what the worst pattern of ours needs. */
const LIMIT_MS = 250
/** A pattern that was stopped so often matches nothing any more. Once may be the machine's fault. */
const STRIKES = 3
/** Steps that take a few milliseconds at the worst; below, the watch would cost more than it saves. */
const FREE_STEPS = 2_000_000

/** Pure. Throws an Error that says in words what is wrong with the pattern. */
export function compilePattern(source: string): Pattern {
  // `(?i)` in front and `\x{28FF}` are how other engines spell what JavaScript has as a flag and as `\u{28FF}`.
  const inline = /^\(\?([ims]+)\)/.exec(source)
  const body = source.slice(inline?.[0].length ?? 0).replace(/(?<!\\)((?:\\\\)*)\\x\{/g, '$1\\u{')
  const flags = [...new Set(inline?.[1] ?? '')].join('')
  const worst = examine(body, flags.includes('m'))
  try {
    return { source, regex: new RegExp(body, `u${flags}`), worst }
  } catch (failure) {
    throw new Error(`is not a regular expression: ${reasonOf(failure)}`)
  }
}

/** The engine's message quotes the whole pattern in front of its reason. */
const reasonOf = (failure: unknown): string => messageOf(failure).replace(/^.*\/[a-z]*: (?=[^:/]+$)/s, '')

/** The pattern's worst case. Throws for what (1) and (2) of the file's head refuse. */
function examine(body: string, everyLine: boolean): Pattern['worst'] {
  const groups: { variable: boolean; choice: boolean }[] = [{ variable: false, choice: false }]
  let closed: { variable: boolean; choice: boolean } | undefined
  let broad = 0
  let forks = 0
  let optional = 0
  /** Repetitions of one kind of character. Two of another kind do not compete for the same text. */
  const narrow = new Map<string, number>()
  /** Where the thing that a quantifier would repeat begins. */
  let atom = 0
  for (let at = 0; at < body.length; at++) {
    const it = body[at]
    const group = groups[groups.length - 1]
    if (group === undefined) throw new Error('has a ) without a (')
    const quantifier = /^(?:[*+?]|\{\d+(?:,\d*)?\})/.exec(body.slice(at, at + 24))?.[0]
    if (quantifier !== undefined) {
      const bound = upperBound(quantifier)
      const many = bound > 1
      if (many && (closed?.variable === true || closed?.choice === true)) {
        throw new Error(
          'repeats a group that itself repeats or chooses; write it without the inner repetition or choice',
        )
      }
      const varies = bound === Infinity || /[?,]/.test(quantifier)
      const repeated = body.slice(atom, at)
      if (!varies || bound <= FEW) {
        forks += varies ? bound : 0
        if (varies && ++optional > MAX_OPTIONAL) throw new Error(`has more than ${MAX_OPTIONAL} optional parts`)
      } else if (BROAD.test(repeated)) broad++
      else {
        const kind = BLANK.test(repeated) ? ' ' : repeated
        narrow.set(kind, (narrow.get(kind) ?? 0) + 1)
      }
      group.variable ||= varies || closed?.variable === true
      at += quantifier.length - 1
      if (body[at + 1] === '?') at++
      closed = undefined
      continue
    }
    const before = closed
    closed = undefined
    if (it !== ')') atom = at
    if (before !== undefined) {
      group.variable ||= before.variable
      group.choice ||= before.choice
    }
    if (it === '\\') {
      if (/[1-9k]/.test(body[at + 1] ?? '')) throw new Error('has a back reference')
      at++
    } else if (it === '[') at = endOfClass(body, at)
    else if (it === '|') {
      group.choice = true
      forks++
    } else if (it === '(') {
      if (body[at + 1] === '?' && !/^\(\?(?::|<[^=!])/.test(body.slice(at, at + 4))) {
        throw new Error(
          'has a look-around or an option inside; only (?:…) and an option in front, like (?i), are taken',
        )
      }
      groups.push({ variable: false, choice: false })
      if (body[at + 1] === '?') at = body.indexOf(body[at + 2] === ':' ? ':' : '>', at)
    } else if (it === ')') closed = groups.pop()
  }
  const anchored = body.startsWith('^') && !everyLine && groups[0]?.choice === false
  const competing = [...narrow.values()].reduce((sum, it) => sum + it - 1, 0)
  const degree = Math.max(1, (anchored ? 0 : 1) + broad + competing)
  return (length) => length ** degree * 2 ** Math.min(forks, MAX_FORKS)
}

/** Of `.`, `[^…]`, `\S` and the like long runs are to be expected. */
const BROAD = /^(?:\.|\[\^|\\[SWDP]|\(|\[.*\\[SWDP])/s
const BLANK = /^(?: |\\s|\[.*(?:\\s| ))/s
/** A repetition that ends after so many is a choice among as many. */
const FEW = 8
const MAX_FORKS = 60
/** Each may double the engine's program, and nothing stops the engine while it writes one. */
const MAX_OPTIONAL = 20

const upperBound = (quantifier: string): number =>
  quantifier === '?' ? 1 : Number(/(\d+)\}$/.exec(quantifier)?.[1] ?? Number.POSITIVE_INFINITY)

function endOfClass(body: string, from: number): number {
  for (let at = from + 1; at < body.length; at++) {
    if (body[at] === '\\') at++
    else if (body[at] === ']') return at
  }
  return body.length
}

const strikes = new WeakMap<Pattern, number>()
let job: (() => boolean) | undefined
let watch: { readonly script: Script; readonly context: Context } | undefined

/** Runs it with a time limit. A script is the only synchronous work that the engine can be told to give up. */
function watched(it: () => boolean): boolean {
  watch ??= { script: new Script('run()'), context: createContext({ run: () => job?.() === true }) }
  job = it
  try {
    return watch.script.runInContext(watch.context, { timeout: LIMIT_MS }) === true
  } finally {
    job = undefined
  }
}

/** Whether the pattern was given up for the time it takes. */
export const isTooSlow = (pattern: Pattern): boolean => (strikes.get(pattern) ?? 0) >= STRIKES

/** Whether some part of one of the texts matches. What takes longer than 250 ms does not. */
export function matchesSome(pattern: Pattern, texts: readonly string[]): boolean {
  if (isTooSlow(pattern)) return false
  const test = (): boolean => texts.some((it) => pattern.regex.test(it))
  const worst = texts.reduce((sum, it) => sum + pattern.worst(it.length), 0)
  if (worst <= FREE_STEPS) return test()
  try {
    return watched(test)
  } catch (failure) {
    if ((failure as NodeJS.ErrnoException).code !== 'ERR_SCRIPT_EXECUTION_TIMEOUT') throw failure
    strikes.set(pattern, (strikes.get(pattern) ?? 0) + 1)
    return false
  }
}
