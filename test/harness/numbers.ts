/** The numbered output of the scripted child's `lines` and `flood`, byte for byte as the terminal passes it on. */
import { expect } from 'vitest'

const HEAD = Buffer.from('ready\r\n')
const LINE_BYTES = 12

const numberedLine = (n: number): string => `n${String(n).padStart(9, '0')}\r\n`

/** The first `bytes` bytes a child must have written. */
export function expectedOutput(bytes: number): Buffer {
  const all = Buffer.alloc(HEAD.length + LINE_BYTES * Math.ceil(Math.max(0, bytes - HEAD.length) / LINE_BYTES))
  HEAD.copy(all)
  for (let at = HEAD.length, n = 0; at < all.length; at += LINE_BYTES, n++) all.write(numberedLine(n), at, 'latin1')
  return all.subarray(0, bytes)
}

/** Fails at the first byte that differs from what the child wrote. */
export function expectExact(bytes: Buffer, from = 0): void {
  const wanted = expectedOutput(from + bytes.length).subarray(from)
  if (wanted.equals(bytes)) return
  const at = bytes.findIndex((byte, index) => byte !== wanted[index])
  expect({ at: from + at, bytes: bytes.subarray(at - 20, at + 40).toString('latin1') }).toEqual({
    at: from + at,
    bytes: wanted.subarray(at - 20, at + 40).toString('latin1'),
  })
}
