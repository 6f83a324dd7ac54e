/** Runs one command line: parse, run, print, exit code. */
import { Fault, type ErrorBody } from '../protocol/fault.ts'
import { SUPPORTED_VERSIONS } from '../protocol/version.ts'
import type { Outcome } from '../protocol/command.ts'
import { checkHost, HandOver, outputLook, VERSION, type Cli } from './cli.ts'
import { faults } from './errors.ts'
import { OutputClosed, err, out } from './out.ts'
import type { Parsed, Runnable } from './parse.ts'
import { render, renderError } from './render.ts'
import { safeLine } from './text.ts'

export const EXIT_OK = 0
export const EXIT_FAILED = 1
export const EXIT_USAGE = 2

/** Runs a parsed command and answers the exit code. All its output is out when it resolves. Throws HandOver. */
export async function execute(cli: Cli, { command, input, globals }: Runnable): Promise<number> {
  const json = command.json && input.has('json')
  try {
    if (command.plugin !== undefined) checkHost(globals.host)
    cli.plugin = command.plugin
    cli.noStart = globals.noStart
    const outcome = await orInterrupted(command.interrupted?.(input), () => command.run(cli, input))
    print(cli, outcome, json)
    return outcome.exitCode ?? EXIT_OK
  } catch (failure) {
    if (failure instanceof HandOver) throw failure
    return fail(failure, json)
  }
}

/** Runs `run`; SIGINT or SIGTERM meanwhile is answered with `fault`, where there is one. */
async function orInterrupted<T>(fault: Fault | undefined, run: () => Promise<T>): Promise<T> {
  if (fault === undefined) return await run()
  let stop: () => void = () => undefined
  const interrupted = new Promise<never>((_, reject) => {
    stop = () => reject(fault)
    for (const signal of INTERRUPTS) process.once(signal, stop)
  })
  try {
    return await Promise.race([run(), interrupted])
  } finally {
    for (const signal of INTERRUPTS) process.off(signal, stop)
  }
}

const INTERRUPTS = ['SIGINT', 'SIGTERM'] as const

function print(cli: Cli, outcome: Outcome, json: boolean): void {
  if (json) out(envelope({ ok: outcome.ok }))
  else {
    for (const note of outcome.notes ?? []) err(`${safeLine(note)}\n`)
    if (outcome.human.length > 0) out(render(outcome.human, outputLook(cli.env)))
  }
}

/** Tells a failure and answers its exit code. */
export function fail(failure: unknown, json: boolean): number {
  if (failure instanceof OutputClosed) return EXIT_OK
  const body: ErrorBody = failure instanceof Fault ? failure.toBody() : internal(failure)
  let told = false
  try {
    if (json) out(envelope({ err: body }))
    told = json
  } catch (problem) {
    told = problem instanceof OutputClosed // the exit code still tells
  }
  if (body.code === 'cli_usage') {
    err(`error: ${safeLine(body.msg)}\n`)
    return EXIT_USAGE
  }
  if (!told) err(renderError(body))
  return EXIT_FAILED
}

/** Tells a usage problem in one line. */
export function failUsage(parsed: Extract<Parsed, { problem: string }>): number {
  const help = parsed.command === undefined ? 'pohunek --help' : `pohunek ${parsed.command.path.join(' ')} --help`
  return fail(faults.cli_usage({ problem: `${parsed.problem} (${help})` }), parsed.json)
}

const internal = (failure: unknown): ErrorBody => ({
  class: 'daemon',
  code: 'internal_error',
  msg: `this is a defect of pohunek: ${failure instanceof Error ? (failure.stack ?? failure.message) : String(failure)}`,
})

// JSON.stringify leaves DEL, C1 and the two separators as they are; a terminal must not see them.
const UNSAFE = /[\u007f-\u009f\u2028\u2029]/g

export function safeJson(value: unknown, indent = 0): string {
  const text = JSON.stringify(value, null, indent) ?? 'null'
  return text.replace(UNSAFE, (it) => `\\u${it.charCodeAt(0).toString(16).padStart(4, '0')}`)
}

function envelope(body: { ok: unknown } | { err: ErrorBody }): string {
  const { minimum, maximum } = SUPPORTED_VERSIONS
  const whole = {
    cli_version: VERSION,
    protocol: { minimum, maximum },
    ...('ok' in body ? { ok: body.ok ?? null } : body),
  }
  return `${safeJson(whole, 2)}\n`
}
