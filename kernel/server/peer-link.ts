import { writeSync } from 'node:fs'
import type { Socket } from 'node:net'

/** Descriptor of a connected socket, undefined once it is closed. Node has no public door to it. */
export function descriptorOf(socket: Socket): number | undefined {
  const fd = (socket as Socket & { _handle?: { fd?: number } | null })._handle?.fd
  return fd !== undefined && fd >= 0 ? fd : undefined
}

const NOTHING = new Uint8Array(0)

/**
 * True when the other end of a local stream is closed altogether. After it merely ended its writing, an empty write
 * still succeeds; after a close it fails with EPIPE. Nothing is sent either way.
 */
export function isPeerGone(socket: Socket): boolean {
  const fd = descriptorOf(socket)
  if (fd === undefined) return true
  try {
    writeSync(fd, NOTHING)
    return false
  } catch (failure) {
    return (failure as NodeJS.ErrnoException).code !== 'EAGAIN'
  }
}
