/**
 * Regular expressions of detection manifests. They come from files of the host and run in the daemon, so that
 *  1. only the regular subset is taken: no look-around, no back reference;
 *  2. a repetition without bound inside another is refused when the file is read: such a pattern can take exponential
 *     time on a text of forty characters;
 *  3. what is left is at worst polynomial, and `matchesSome` gives it a time limit where that could be noticed.
 */
import { Script } from 'node:vm'
import { messageOf } from '../../protocol/fault.ts'

export interface Pattern {
  /** As written in the file. */
  readonly source: string
  readonly regex: RegExp
  /** Repetitions without bound that can take anything; few of the others count as one. Bounds the worst case. */
  readonly degree: number
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
  const degree = examine(body)
  try {
    return { source, regex: new RegExp(body, `u${[...new Set(inline?.[1] ?? '')].join('')}`), degree }
  } catch (failure) {
    throw new Error(`is not a regular expression: ${reasonOf(failure)}`)
  }
}

/** The engine's message quotes the whole pattern in front of its reason. */
const reasonOf = (failure: unknown): string => messageOf(failure).replace(/^.*\/[a-z]*: (?=[^:/]+$)/s, '')

/** The pattern's degree. Throws for what (1) and (2) of the file's head refuse. */
function examine(body: string): number {
  const groups: { variable: boolean; choice: boolean }[] = [{ variable: false, choice: false }]
  let closed: { variable: boolean; choice: boolean } | undefined
  let broad = 0
  let narrow = 0
  /** Where the thing that a quantifier would repeat begins. */
  let atom = 0
  for (let at = 0; at < body.length; at++) {
    const it = body[at]
    const group = groups[groups.length - 1]
    if (group === undefined) throw new Error('has a ) without a (')
    const quantifier = /^(?:[*+?]|\{\d+(?:,\d*)?\})/.exec(body.slice(at, at + 24))?.[0]
    if (quantifier !== undefined) {
      const unbounded = /[*+]|,\}/.test(quantifier)
      const many = unbounded || upperBound(quantifier) > 1
      if (many && (closed?.variable === true || closed?.choice === true)) {
        throw new Error('repeats a group that itself repeats or chooses; write it without the inner repetition or choice')
      }
      if (unbounded && BROAD.test(body.slice(atom, at))) broad++
      else if (unbounded) narrow++
      group.variable ||= unbounded || quantifier === '?' || quantifier.includes(',') || closed?.variable === true
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
    else if (it === '|') group.choice = true
    else if (it === '(') {
      if (body[at + 1] === '?' && !/^\(\?(?::|<[^=!])/.test(body.slice(at, at + 4))) {
        throw new Error('has a look-around or an option inside; only (?:…) and an option in front, like (?i), are taken')
      }
      groups.push({ variable: false, choice: false })
      if (body[at + 1] === '?') at = body.indexOf(body[at + 2] === ':' ? ':' : '>', at)
    } else if (it === ')') closed = groups.pop()
  }
  return broad + Math.floor(narrow / NARROW_PER_DEGREE)
}

/** Of `.`, `[^…]`, `\S` and the like long runs are to be expected. */
const BROAD = /^(?:\.|\[\^|\\[SWDP]|\(|\[.*\\[SWDP])/s
const NARROW_PER_DEGREE = 4

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
const JOB = 'pohunek.detection.pattern'
// A script is the only synchronous work the engine can be told to give up.
const watched = new Script(`globalThis[Symbol.for(${JSON.stringify(JOB)})]()`)
Object.defineProperty(globalThis, Symbol.for(JOB), { value: () => job?.() === true })

/** Whether the pattern was given up for the time it takes. */
export const isTooSlow = (pattern: Pattern): boolean => (strikes.get(pattern) ?? 0) >= STRIKES

/** Whether some part of one of the texts matches. What takes longer than 250 ms does not. */
export function matchesSome(pattern: Pattern, texts: readonly string[]): boolean {
  if (isTooSlow(pattern)) return false
  const test = (): boolean => texts.some((it) => pattern.regex.test(it))
  const worst = texts.reduce((sum, it) => sum + it.length ** (pattern.degree + 1), 0)
  if (worst <= FREE_STEPS) return test()
  job = test
  try {
    return watched.runInThisContext({ timeout: LIMIT_MS }) === true
  } catch (failure) {
    if ((failure as NodeJS.ErrnoException).code !== 'ERR_SCRIPT_EXECUTION_TIMEOUT') throw failure
    strikes.set(pattern, (strikes.get(pattern) ?? 0) + 1)
    return false
  } finally {
    job = undefined
  }
}
