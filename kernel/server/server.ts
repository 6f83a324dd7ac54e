/** The public endpoint: listeners on one side, dispatch on the other. */
import type { Socket } from 'node:net'
import { peerOf } from '../../platform/index.ts'
import type { RunningKernel } from '../boot.ts'
import type { PeerOf } from './connection.ts'
import { Connections } from './connections.ts'
import { SERVER_LIMITS, type ServerLimits } from './limits.ts'
import { listenLocal } from './listener.ts'
import { descriptorOf } from './peer-link.ts'

export interface ServerOptions {
  readonly socketPath: string
  /** Makes the socket's directory again when it vanished under the running daemon. */
  readonly prepare?: () => void
  readonly limits?: Partial<ServerLimits>
  readonly peerOf?: PeerOf
  /** Time requests in flight get when the daemon stops. */
  readonly stopGraceMs?: number
}

export interface RunningServer extends AsyncDisposable {
  readonly connections: number
  /** Unread bytes held for all clients. */
  readonly pendingBytes: number
}

const STOP_GRACE_MS = 2_000

/**
 * Opens the local socket. Disposing it refuses new requests, gives those in flight `stopGraceMs`, and closes all
 * connections that are not raw streams. Throws as `listenLocal`.
 */
export async function listen(kernel: RunningKernel, options: ServerOptions): Promise<RunningServer> {
  const { clock, log, events } = kernel.kernel
  const limits = { ...SERVER_LIMITS, ...options.limits }
  const readPeer = options.peerOf ?? peerOf
  const scope = kernel.scope.child('server')
  const shared = { dispatcher: kernel.dispatcher, events, streams: kernel.streams, limits, log, peerOf: readPeer }
  const connections = new Connections(shared, clock, scope)
  const accept = (socket: Socket): void => {
    const fd = descriptorOf(socket)
    const peer = fd === undefined ? undefined : readPeer(fd)
    if (peer?.uid === process.geteuid?.()) return connections.accept(socket, true)
    log.warn({ uid: peer?.uid, pid: peer?.pid }, 'a connection of another user was refused')
    socket.destroy()
  }
  let listener: AsyncDisposable
  try {
    const prepare = options.prepare === undefined ? {} : { prepare: options.prepare }
    listener = await listenLocal({ path: options.socketPath, scope, log, accept, ...prepare })
  } catch (failure) {
    await scope.close()
    throw failure
  }
  let stopped: Promise<void> | undefined
  const stop = async (): Promise<void> => {
    kernel.dispatcher.refuse()
    await listener[Symbol.asyncDispose]()
    // What clients sent before they could know is read and refused, not cut off.
    await turn()
    await turn()
    await connections.stop(options.stopGraceMs ?? STOP_GRACE_MS)
    await scope.close()
  }
  return {
    get connections() {
      return connections.size
    },
    get pendingBytes() {
      return connections.pendingBytes
    },
    [Symbol.asyncDispose]: () => (stopped ??= stop()),
  }
}

const turn = (): Promise<void> => new Promise((resolve) => setImmediate(resolve))
