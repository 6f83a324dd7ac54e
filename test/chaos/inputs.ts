/**
 * What was sent to a session, and whether what its program read fits that. Pure.
 * An input is `<letter number:padding>` and a carriage return. The letter names its source; order is promised within one.
 */

/** pending: nobody said no, and it has to arrive; unknown: the connection went before anybody said anything. */
type Outcome = 'pending' | 'accepted' | 'refused' | 'unknown'

export interface Sent {
  readonly text: string
  /** Inputs of one stream arrive up to some point and not behind it. */
  readonly stream: number
  outcome: Outcome
}

export class Source {
  readonly letter: string
  readonly sent: Sent[] = []
  #stream = 0

  constructor(letter: string) {
    this.letter = letter
  }

  /** Its inputs go through a new connection, or are calls of their own. */
  opened(): void {
    this.#stream++
  }

  next(padding: number): Sent {
    const number = String(this.sent.length).padStart(6, '0')
    const input: Sent = {
      text: `<${this.letter}${number}:${'p'.repeat(padding)}>`,
      stream: this.#stream,
      outcome: 'pending',
    }
    this.sent.push(input)
    return input
  }

  /** Everything pending was seen to arrive. */
  settled(): void {
    for (const input of this.sent) if (input.outcome === 'pending') input.outcome = 'accepted'
  }

  /** The connection is gone. */
  closed(): void {
    for (const input of this.sent) if (input.outcome === 'pending') input.outcome = 'unknown'
  }

  count(outcome: Outcome): number {
    return this.sent.filter((it) => it.outcome === outcome).length
  }
}

export interface Findings {
  readonly problems: readonly string[]
  readonly arrived: number
  /** Typing that went between a text and its submit key; allowed once the plan has paused for long. */
  readonly overtaken: number
}

const CR = '\r'
const CONTEXT = 40

/** `read`: all the program read. */
export function findings(read: string, sources: readonly Source[]): Findings {
  const problems: string[] = []
  const arrived = new Map(sources.map((it) => [it.letter, [] as number[]]))
  const token = /<([a-z])(\d{6}):p*>|\r/y
  let owed = 0
  let overtaken = 0
  while (token.lastIndex < read.length) {
    const at = token.lastIndex
    const match = token.exec(read)
    const [text, letter, number] = match ?? []
    const source = sources.find((it) => it.letter === letter)
    const torn = text === CR ? owed-- === 0 : source?.sent[Number(number)]?.text !== text
    if (text === undefined || torn) {
      problems.push(
        `byte ${at} of the input is torn: ${JSON.stringify(read.slice(Math.max(0, at - CONTEXT), at + CONTEXT))}`,
      )
      break
    }
    if (text === CR) continue
    if (owed++ > 0) overtaken++
    arrived.get(letter ?? '')?.push(Number(number))
  }
  if (owed > 0) problems.push(`${owed} inputs have no submit key yet`)
  for (const source of sources) problems.push(...judged(source, arrived.get(source.letter) ?? []))
  return { problems, arrived: [...arrived.values()].reduce((sum, it) => sum + it.length, 0), overtaken }
}

function judged({ letter, sent }: Source, arrived: readonly number[]): string[] {
  const problems = arrived.flatMap((number, at) => {
    const before = arrived[at - 1] ?? -1
    if (number > before) return []
    return [`${letter}${number} (${sent[number]?.outcome}) arrived behind ${letter}${before}`]
  })
  const there = new Set(arrived)
  let missing: { stream: number; number: number } | undefined
  for (const [number, { outcome, stream }] of sent.entries()) {
    if (there.has(number)) {
      if (outcome === 'refused') problems.push(`${letter}${number} was refused and arrived`)
      if (missing?.stream === stream)
        problems.push(`${letter}${number} arrived, ${letter}${missing.number} before it on the same connection did not`)
    } else {
      if (outcome === 'accepted' || outcome === 'pending')
        problems.push(`${letter}${number} (${outcome}) did not arrive`)
      if (outcome !== 'refused' && missing?.stream !== stream) missing = { stream, number }
    }
  }
  return problems
}
