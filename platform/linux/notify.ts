/** sd_notify(3): one datagram to the service manager. */
import { closeSync } from 'node:fs'
import { native } from './native.ts'

const AF_UNIX = 1
const SOCK_DGRAM_CLOEXEC = 2 | 0o2000000
const MSG_NOSIGNAL = 0x4000

/**
 * Sends `state` (`READY=1`) to the socket in `socketPath`, a value of NOTIFY_SOCKET. Node has no unix datagrams, so this
 * loads koffi. False when there is no such socket: then nobody waits for it.
 */
export function notifyManager(socketPath: string, state: string): boolean {
  const path = Buffer.from(socketPath.startsWith('@') ? `\0${socketPath.slice(1)}` : `${socketPath}\0`)
  const address = Buffer.alloc(2 + path.length)
  address.writeUInt16LE(AF_UNIX, 0)
  path.copy(address, 2)
  const { socket, sendto } = native()
  const fd = socket(AF_UNIX, SOCK_DGRAM_CLOEXEC, 0)
  if (fd < 0) return false
  try {
    const bytes = Buffer.from(state)
    return sendto(fd, bytes, bytes.length, MSG_NOSIGNAL, address, address.length) === bytes.length
  } finally {
    closeSync(fd)
  }
}
