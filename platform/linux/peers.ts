import type { Peer } from '../peers.ts'
import { native } from './native.ts'

const SOL_SOCKET = 1
const SO_PEERCRED = 17
const UCRED_BYTES = 12 // pid, uid, gid: three 32-bit integers

/** The peer as the kernel recorded it at connect; undefined when `socketFd` is no connected local socket. */
export function peerOf(socketFd: number): Peer | undefined {
  const credentials = Buffer.alloc(UCRED_BYTES)
  const length = Buffer.alloc(4)
  length.writeInt32LE(UCRED_BYTES)
  if (native().getsockopt(socketFd, SOL_SOCKET, SO_PEERCRED, credentials, length) !== 0) return undefined
  if (length.readInt32LE() !== UCRED_BYTES) return undefined
  const pid = credentials.readInt32LE(0)
  // The kernel answers pid 0 and uid -1 for sockets that have no peer credentials.
  return pid <= 0 ? undefined : { pid, uid: credentials.readUInt32LE(4), gid: credentials.readUInt32LE(8) }
}
