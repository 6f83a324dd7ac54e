/** Command line of pohunekd. */
import { parseArgs } from 'node:util'

export interface Arguments {
  readonly wants: 'serve' | 'help' | 'version' | 'upgrade-preflight'
  readonly without: readonly string[]
  readonly readyFd: number | undefined
  /** The report of `upgrade-preflight` as JSON. */
  readonly json: boolean
}

const PREFLIGHT = 'upgrade-preflight'

/** Pure. Throws an Error whose message is fit for the user. */
export function readArguments(argv: readonly string[]): Arguments {
  const { values, positionals } = parseArgs({
    args: [...argv],
    strict: true,
    allowPositionals: true,
    options: {
      without: { type: 'string', multiple: true, default: [] },
      'ready-fd': { type: 'string' },
      json: { type: 'boolean', default: false },
      version: { type: 'boolean' },
      help: { type: 'boolean', short: 'h' },
    },
  })
  const [command, ...rest] = positionals
  const unexpected = command === PREFLIGHT ? rest[0] : command
  if (unexpected !== undefined) throw new Error(`Unexpected argument '${unexpected}'`)
  const given = values['ready-fd']
  if (given !== undefined && !/^[1-9][0-9]{0,5}$/.test(given)) {
    throw new Error('--ready-fd takes the number of an open descriptor')
  }
  if (command === PREFLIGHT && given !== undefined) throw new Error(`--ready-fd does not go with ${PREFLIGHT}`)
  if (command === undefined && values.json) throw new Error(`--json goes with ${PREFLIGHT} only`)
  return {
    wants:
      values.help === true ? 'help' : values.version === true ? 'version' : command === undefined ? 'serve' : PREFLIGHT,
    without: values.without.flatMap((it) => it.split(',')).filter((it) => it !== ''),
    readyFd: given === undefined ? undefined : Number(given),
    json: values.json,
  }
}
