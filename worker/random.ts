import * as fs from 'node:fs'

/** `bytes` random bytes as hex, from the kernel: node:crypto would cost each idle worker a few hundred kB. */
export function randomHex(bytes: number): string {
  const buffer = Buffer.alloc(bytes)
  const fd = fs.openSync('/dev/urandom', 'r')
  try {
    if (fs.readSync(fd, buffer) !== bytes) throw new Error('the kernel gave too few random bytes')
  } finally {
    fs.closeSync(fd)
  }
  return buffer.toString('hex')
}
