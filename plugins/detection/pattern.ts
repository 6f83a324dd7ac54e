/**
 * Regular expressions of detection manifests. They come from files of the host and run in the daemon, so that
 *  1. only the regular subset is taken: no look-around, no back reference;
 *  2. a repetition without bound inside another is refused when the file is read: such a pattern can take exponential
 *     time on a text of forty characters; so are many optional parts, which take it to be made ready;
 *  3. what is left is at worst polynomial, and runs within the time of a look (allowance.ts).
 */
import { messageOf } from '../../protocol/fault.ts'

export interface Pattern {
  /** As written in the file. */
  readonly source: string
  readonly regex: RegExp
}

/** Pure. Throws an Error that says in words what is wrong with the pattern. */
export function compilePattern(source: string): Pattern {
  // `(?i)` in front and `\x{28FF}` are how other engines spell what JavaScript has as a flag and as `\u{28FF}`.
  const inline = /^\(\?([ims]+)\)/.exec(source)
  const body = source.slice(inline?.[0].length ?? 0).replace(/(?<!\\)((?:\\\\)*)\\x\{/g, '$1\\u{')
  const flags = [...new Set(inline?.[1] ?? '')].join('')
  examine(body)
  try {
    return { source, regex: new RegExp(body, `u${flags}`) }
  } catch (failure) {
    throw new Error(`is not a regular expression: ${reasonOf(failure)}`)
  }
}

/** The engine's message quotes the whole pattern in front of its reason. */
const reasonOf = (failure: unknown): string => messageOf(failure).replace(/^.*\/[a-z]*: (?=[^:/]+$)/s, '')

/** Throws for what (1) and (2) of the file's head refuse. */
function examine(body: string): void {
  const groups: { variable: boolean; choice: boolean }[] = [{ variable: false, choice: false }]
  let closed: { variable: boolean; choice: boolean } | undefined
  let optional = 0
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
      if (varies && bound <= FEW && ++optional > MAX_OPTIONAL)
        throw new Error(`has more than ${MAX_OPTIONAL} optional parts`)
      group.variable ||= varies || closed?.variable === true
      at += quantifier.length - 1
      if (body[at + 1] === '?') at++
      closed = undefined
      continue
    }
    const before = closed
    closed = undefined
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
        throw new Error(
          'has a look-around or an option inside; only (?:…) and an option in front, like (?i), are taken',
        )
      }
      groups.push({ variable: false, choice: false })
      if (body[at + 1] === '?') at = body.indexOf(body[at + 2] === ':' ? ':' : '>', at)
    } else if (it === ')') closed = groups.pop()
  }
}

/** A repetition that ends after so many is a choice among as many. */
const FEW = 8
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
