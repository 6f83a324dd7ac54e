/**
 * pohunekd: the daemon in the foreground. SIGTERM and SIGINT stop it cleanly, a second one at once.
 * NODE_OPTIONS and NODE_EXTRA_CA_CERTS, which cost each of our programs start time, are taken out of its environment by
 * the wrapper that starts it; what sessions are given of them is the sessions' business.
 */
import { closeSync, writeSync } from 'node:fs'
import { systemClock } from '../kernel/clock.ts'
import { Fault, messageOf } from '../protocol/fault.ts'
import { readArguments, type Arguments } from './arguments.ts'
import { closeInherited, processes, tellServiceManager } from '../platform/index.ts'
import { writeAll } from '../platform/private-files.ts'
import { officialSet, officialDirectory } from '../plugins/packages/official.ts'
import { serve, STORE_SCHEMA, SYSTEM_TMP } from './daemon.ts'
import { takeFailures } from './failures.ts'
import { collectWhenResting, keepHeapSmall } from './heap.ts'
import { plugins } from './plugins.ts'
import { preflightText } from './preflight-text.ts'
import { preflight } from './preflight.ts'

declare const POHUNEK_VERSION: string | undefined
declare const POHUNEK_LOAD_ONLY: boolean | undefined
const version = typeof POHUNEK_VERSION === 'string' ? POHUNEK_VERSION : '0.0.0-dev'

const HELP = `pohunekd ${version}: the pohunek daemon, in the foreground

usage: pohunekd [--without <plugin>[,<plugin>...]] [--ready-fd <n>] [--version] [--help]
       pohunekd upgrade-preflight [--without <plugin>[,<plugin>...]] [--json]

  upgrade-preflight  reports what would become of store and sessions if this daemon took over now; changes nothing,
                     also beside a running daemon. Ends with 1 when anything would be lost.

  --without   plugins left out of this run: ${plugins.map((it) => it.contract.name).join(', ')}
  --ready-fd  an open descriptor; READY and a newline are written to it once the socket accepts

Directories follow XDG_RUNTIME_DIR, XDG_CONFIG_HOME, XDG_DATA_HOME, XDG_STATE_HOME, XDG_CACHE_HOME and HOME.
`

const EXIT_FAILED = 1
const EXIT_USAGE = 2
const EXIT_INTERRUPTED = 130

function tellReady(fd: number): void {
  try {
    writeSync(fd, 'READY\n')
    if (fd > 2) closeSync(fd)
  } catch {
    // Whoever waited is gone; the daemon serves all the same.
  }
}

function complain(failure: unknown): void {
  const text = messageOf(failure)
  const hint = failure instanceof Fault && failure.recover !== undefined ? `  → ${failure.recover}\n` : ''
  writeSync(2, `pohunekd: ${text}\n${hint}`)
}

/** The exit code. Standard output has the whole report, standard error what keeps one from an upgrade. */
function runPreflight({ without, json }: Arguments): number {
  try {
    const official = officialSet(officialDirectory())
    const { report, refusal } = preflight({
      env: process.env,
      plugins,
      without,
      store: STORE_SCHEMA,
      processes,
      isServed: (id) => official.get(id) !== undefined,
      tmpdir: SYSTEM_TMP,
    })
    writeAll(1, Buffer.from(json ? `${JSON.stringify(report)}\n` : preflightText(report)))
    if (refusal !== undefined) complain(refusal)
    return refusal === undefined ? 0 : EXIT_FAILED
  } catch (failure) {
    complain(failure)
    return EXIT_FAILED
  }
}

async function main(): Promise<void> {
  let args: Arguments
  try {
    args = readArguments(process.argv.slice(2))
  } catch (failure) {
    complain(failure)
    process.exit(EXIT_USAGE)
  }
  if (args.wants === 'upgrade-preflight') process.exit(runPreflight(args))
  if (args.wants !== 'serve') {
    writeSync(1, args.wants === 'help' ? HELP : `pohunekd ${version}\n`)
    return
  }
  closeInherited(args.readyFd === undefined ? [] : [args.readyFd])
  const stop = new AbortController()
  const onSignal = (): void => {
    if (stop.signal.aborted) process.exit(EXIT_INTERRUPTED)
    tellServiceManager(process.env, 'STOPPING=1')
    stop.abort()
  }
  process.on('SIGTERM', onSignal).on('SIGINT', onSignal)
  // No timer of the clock keeps a process alive: without this one, a stop that waits for one would end half-way.
  new MessageChannel().port1.ref()
  try {
    const { readyFd } = args
    await serve({
      env: process.env,
      plugins,
      without: args.without,
      version,
      stop: stop.signal,
      logging: (log) =>
        takeFailures(process, log, () => {
          writeSync(2, 'pohunekd: internal error, see the daemon log; sessions go on\n')
          process.exit(EXIT_FAILED)
        }),
      ready: ({ paths }) => {
        if (paths.runtimeIsFallback) writeSync(2, `pohunekd: XDG_RUNTIME_DIR is unset, using ${paths.runtime}\n`)
        if (readyFd !== undefined) tellReady(readyFd)
        tellServiceManager(process.env, 'READY=1')
        keepHeapSmall()
        collectWhenResting(systemClock)
      },
    })
    process.exit(0)
  } catch (failure) {
    complain(failure)
    process.exit(EXIT_FAILED)
  }
}

if (typeof POHUNEK_LOAD_ONLY === 'undefined') void main()
