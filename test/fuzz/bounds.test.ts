/** What random plans are too short for: peers that send without end and never read, frames in the smallest pieces. */
import type { Socket } from 'node:net'
import { expect, onTestFinished, test } from 'vitest'
import { encodeFrameHead, FrameDecoder, MAX_FRAME_PAYLOAD_BYTES, type Frame } from '../../protocol/worker/frames.ts'
import { endCarrying, pssBytes } from '../harness/processes.ts'
import { makeRoots } from '../harness/roots.ts'
import { monotonicMs, until } from '../harness/wait.ts'
import { lease, look, startLone } from './lone.ts'

const MIB = 1_048_576
const ENOUGH = 48 * MIB
/** Nothing is taken for so long: the other side has stopped to read. */
const BLOCKED_MS = 1_500
const LINE = `${JSON.stringify({
  type: 'negotiate',
  request_id: 'unread',
  daemon_instance_id: 'd-fuzz',
  minimum_version: 6,
  maximum_version: 7,
})}\n`

/** Writes lines until the peer takes no more, at most ENOUGH; answers the bytes it took. */
async function pour(socket: Socket): Promise<number> {
  const block = Buffer.from(LINE.repeat(500))
  let taken = 0
  let lastMs = monotonicMs()
  socket.on('error', () => undefined)
  while (taken < ENOUGH) {
    const before = taken
    socket.write(block, () => {
      taken += block.length
      lastMs = monotonicMs()
    })
    await until(
      'a block is taken or nothing is for a while',
      () => taken > before || socket.destroyed || monotonicMs() - lastMs > BLOCKED_MS,
      { pollMs: 1 },
    )
    if (taken === before) break
  }
  return taken
}

test('a worker is asked without end by who never reads: it stops to read, stays small and serves others', async () => {
  const roots = makeRoots()
  onTestFinished(async () => {
    await endCarrying(roots.base)
    roots.remove()
  })
  const worker = await startLone(roots.work)
  const pid = worker.process.pid ?? 0
  const before = pssBytes(pid)
  const { socket } = await lease(worker, 10_000)
  socket.pause()
  expect(await pour(socket)).toBeLessThan(ENOUGH)
  expect(pssBytes(pid) - before).toBeLessThan(40 * MIB)
  // It goes on as soon as it is read.
  let read = 0
  socket.on('data', (chunk: Buffer) => (read += chunk.length))
  socket.resume()
  await until('what was asked is answered', () => read > 10 * LINE.length)
  socket.destroy()
  await look(worker, 10_000)
})

test('a large frame in small pieces costs no more than its bytes', () => {
  const head = encodeFrameHead(
    { version: 7, stream_id: 's', runtime_id: 'r', kind: 'input', write_id: 'w' },
    MAX_FRAME_PAYLOAD_BYTES,
  )
  const payload = Buffer.alloc(MAX_FRAME_PAYLOAD_BYTES, 'p')
  const bytes = Buffer.concat([head, payload, head, payload])
  const decoder = new FrameDecoder()
  const frames: Frame[] = []
  const began = monotonicMs()
  for (let at = 0; at < bytes.length; at += 16) frames.push(...decoder.push(bytes.subarray(at, at + 16)))
  // Copying all that is held for every piece takes over ten seconds.
  expect(monotonicMs() - began).toBeLessThan(3_000)
  expect(frames.map((it) => Buffer.compare(it.payload, payload))).toEqual([0, 0])
})
