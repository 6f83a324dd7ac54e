/** Command line of pohunekd. */
import { parseArgs } from 'node:util'

export interface Arguments {
  readonly wants: 'serve' | 'help' | 'version'
  readonly without: readonly string[]
  readonly readyFd: number | undefined
}

/** Pure. Throws an Error whose message is fit for the user. */
export function readArguments(argv: readonly string[]): Arguments {
  const { values } = parseArgs({
    args: [...argv],
    strict: true,
    allowPositionals: false,
    options: {
      without: { type: 'string', multiple: true, default: [] },
      'ready-fd': { type: 'string' },
      version: { type: 'boolean' },
      help: { type: 'boolean', short: 'h' },
    },
  })
  const given = values['ready-fd']
  if (given !== undefined && !/^[1-9][0-9]{0,5}$/.test(given)) {
    throw new Error('--ready-fd takes the number of an open descriptor')
  }
  return {
    wants: values.help === true ? 'help' : values.version === true ? 'version' : 'serve',
    without: values.without.flatMap((it) => it.split(',')).filter((it) => it !== ''),
    readyFd: given === undefined ? undefined : Number(given),
  }
}
