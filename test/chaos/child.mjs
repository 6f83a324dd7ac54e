#!/usr/bin/env node
// The program of a chaos session: <directory> <plain|colour> <bytes per second>. It floods numbered lines in bursts and
// keeps its own account in the directory: `out` is every byte it wrote, written there first, `in` every byte it read.
// While `hold` exists it writes nothing and says in `held` how much it has written; its first `held` means it is ready.
import { spawnSync } from 'node:child_process'
import { existsSync, openSync, writeFileSync, writeSync } from 'node:fs'
import { join } from 'node:path'
import { setImmediate as turn, setTimeout as sleep } from 'node:timers/promises'
import { crc32 } from 'node:zlib'

const [directory, style, rate] = process.argv.slice(2)
const file = (name) => join(directory, name)
const BURSTS = [4_096, 65_536, 16_384, 524_288, 262_144]
const BLOCK_BYTES = 16_384
const HOLD_POLL_MS = 5

// No byte may be changed by the terminal on its way, in either direction.
if (spawnSync('stty', ['raw', '-echo'], { stdio: 'inherit' }).status !== 0) process.exit(70)
const out = openSync(file('out'), 'a', 0o600)
const input = openSync(file('in'), 'a', 0o600)
process.stdin.on('data', (chunk) => writeAll(input, chunk))

function writeAll(fd, bytes) {
  for (let at = 0; at < bytes.length;) {
    try {
      at += writeSync(fd, bytes, at)
    } catch (problem) {
      if (problem.code !== 'EAGAIN') throw problem
    }
  }
}

/** At most 70 columns, so that no terminal of a run wraps it. */
function line(n) {
  const length = (n * 7_919) % 48
  const text =
    style === 'plain' ? 'x'.repeat(length) : `\x1b[1;${31 + (n % 6)}m${'語'.repeat(length / 2)}\x1b[4mu\x1b[0m`
  const body = `n${String(n).padStart(9, '0')} ${text} `
  return `${body}${crc32(body).toString(16).padStart(8, '0')}\r\n`
}

let n = 0
let written = 0
async function held() {
  while (existsSync(file('hold'))) {
    if (!existsSync(file('held'))) writeFileSync(file('held'), String(written))
    await sleep(HOLD_POLL_MS)
  }
}

for (let burst = 0; ; burst++) {
  await held()
  const bytes = BURSTS[burst % BURSTS.length]
  for (const end = written + bytes; written < end;) {
    let text = ''
    while (text.length < BLOCK_BYTES) text += line(n++)
    const block = Buffer.from(text)
    writeAll(out, block)
    writeAll(1, block)
    written += block.length
    await turn() // input is read between blocks
  }
  await sleep((bytes / Number(rate)) * 1000)
}
