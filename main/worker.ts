/** Entry of `pohunek-sessiond`: one process that owns one session's terminal. */
import { messageOf } from '../protocol/fault.ts'
import * as fs from 'node:fs'
import { join } from 'node:path'
import { systemClock } from '../kernel/clock.ts'
import { crashPoint } from '../platform/crash-points.ts'
import { closeInherited, processes, tellServiceManager } from '../platform/index.ts'
import { READY_STATE, sessionLogName } from '../protocol/worker/files.ts'
import { parseArguments, USAGE, type WorkerArguments } from '../worker/argv.ts'
import { workerLog } from '../worker/log.ts'
import { Worker } from '../worker/worker.ts'
import { collectWhenResting, keepHeapSmall } from './heap.ts'

declare const POHUNEK_VERSION: string | undefined
const version = typeof POHUNEK_VERSION === 'string' ? POHUNEK_VERSION : '0.0.0-dev'

function argumentsOrUsage(): WorkerArguments {
  try {
    return parseArguments(process.argv.slice(2))
  } catch (failure) {
    fs.writeSync(2, `pohunek-sessiond: ${(failure as Error).message}\n${USAGE}\n`)
    process.exit(2)
  }
}

const words = (failure: unknown): string =>
  failure instanceof Error ? (failure.stack ?? failure.message) : String(failure)

async function main(): Promise<void> {
  const args = argumentsOrUsage()
  closeInherited(args.readyFd === undefined ? [] : [args.readyFd])
  // A hang-up of whoever started us is not our end; SIGTERM is.
  process.on('SIGHUP', () => {})
  const umask = process.umask(0o077)
  const log = workerLog({
    file: join(args.stateRoot, 'logs', sessionLogName(args.sessionId)),
    bindings: { session: args.sessionId, generation: args.generation },
    processes,
    self: processes.identify(process.pid) ?? { pid: process.pid, startIdentity: '0' },
  })
  // The program must outlive a mistake of ours: it is told and the terminal goes on.
  process.on('uncaughtException', (failure) => log.error({ problem: words(failure) }, 'uncaught exception'))
  process.on('unhandledRejection', (failure) => log.error({ problem: words(failure) }, 'unhandled rejection'))
  const worker = new Worker({
    args,
    processes,
    clock: systemClock,
    log,
    version,
    umask,
    exit: (code) => process.exit(code),
  })
  process.on('SIGTERM', () => void worker.terminate())
  process.on('SIGINT', () => void worker.terminate())
  await worker.listen().catch((failure: unknown) => {
    // Who starts a worker reads its log; its standard error may go nowhere.
    log.error({ problem: words(failure) }, 'the worker could not start')
    throw failure
  })
  process.chdir('/')
  crashPoint('worker.ready')
  // An older systemd cannot hand us its socket as the descriptor; then NOTIFY_SOCKET is set and the descriptor is not ours.
  if (process.env['NOTIFY_SOCKET'] !== undefined) tellServiceManager(process.env, READY_STATE)
  else if (args.readyFd !== undefined) {
    fs.writeSync(args.readyFd, `${READY_STATE}\n`)
    fs.closeSync(args.readyFd)
  }
  crashPoint('worker.ready.told')
  // Behind whatever the daemon, which connects now, has asked meanwhile.
  setImmediate(() => worker.warmUp())
  keepHeapSmall()
  collectWhenResting(systemClock)
}

// The build may load the program only to make its code cache (scripts/loader.cjs).
if ((globalThis as { POHUNEK_LOAD_ONLY?: boolean }).POHUNEK_LOAD_ONLY !== true) {
  main().catch((failure: unknown) => {
    fs.writeSync(2, `pohunek-sessiond: ${messageOf(failure)}\n`)
    process.exit(1)
  })
}
