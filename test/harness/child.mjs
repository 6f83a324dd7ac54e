#!/usr/bin/env node
// The scripted program of sessions: what it does is its first argument. It prints `ready` when it can be talked to, so
// no shell prompt decides a test.
import { spawn } from 'node:child_process'
import { readFileSync, writeSync } from 'node:fs'
import { setTimeout as sleep } from 'node:timers/promises'

const [what = 'idle', ...args] = process.argv.slice(2)
const forever = () => setInterval(() => undefined, 2 ** 30)

/** Writes all of it, also when the terminal takes only a part. */
function put(text) {
  const bytes = Buffer.from(text)
  let at = 0
  while (at < bytes.length) {
    try {
      at += writeSync(1, bytes, at)
    } catch (problem) {
      if (problem.code !== 'EAGAIN') throw problem
    }
  }
}

const number = (n) => `n${String(n).padStart(9, '0')}\n`

const scripts = {
  idle() {
    put('ready\n')
    forever()
  },

  /** <every ms>: one numbered line at a time, for ever. */
  async lines(everyMs = '20') {
    put('ready\n')
    for (let n = 0; ; n++) {
      put(number(n))
      await sleep(Number(everyMs))
    }
  },

  /** <lines>: numbered lines as fast as the terminal takes them, then END; 0 means without end. */
  async flood(count = '0') {
    put('ready\n')
    const lines = Number(count)
    for (let n = 0; lines === 0 || n < lines; n += 500) {
      let block = ''
      for (let i = n; i < n + 500 && (lines === 0 || i < lines); i++) block += number(i)
      put(block)
      if (n % 50_000 === 0) await sleep(0)
    }
    put('END\n')
    forever()
  },

  /** One byte per write, as fast as it goes. */
  async drip() {
    put('ready\n')
    for (let n = 0; ; n++) {
      writeSync(1, n % 79 === 78 ? '\n' : 'x')
      if (n % 2_000 === 0) await sleep(0)
    }
  },

  /** Raw mode: every byte received is printed as hex; `q` ends with status 0. */
  hex() {
    process.stdin.setRawMode(true)
    process.stdin.on('data', (chunk) => {
      for (const byte of chunk) put(`<${byte.toString(16).padStart(2, '0')}>`)
      if (chunk.includes(0x71)) process.exit(0)
    })
    put('ready\r\n')
  },

  /** Raw mode: bytes come back as they are. */
  echo() {
    process.stdin.setRawMode(true)
    process.stdin.on('data', (chunk) => put(chunk))
    put('ready\r\n')
  },

  /** Line mode: each line is answered with `got:<line>`; `exit N` ends with N, `size` prints the size. */
  lines_in() {
    process.stdout.on('resize', () => put(`winch:${process.stdout.columns}x${process.stdout.rows}\n`))
    let rest = ''
    process.stdin.on('data', (chunk) => {
      rest += chunk
      for (let at = rest.indexOf('\n'); at >= 0; at = rest.indexOf('\n')) {
        const line = rest.slice(0, at)
        rest = rest.slice(at + 1)
        const exit = /^exit (\d+)$/.exec(line)
        if (exit) process.exit(Number(exit[1]))
        else if (line === 'size') put(`size:${process.stdout.columns}x${process.stdout.rows}\n`)
        else if (line === 'cwd') put(`cwd:${process.cwd()}\n`)
        else put(`got:${line}\n`)
      }
    })
    put('ready\n')
  },

  /** <hex>…: asks the terminal these queries in raw mode and prints each answer as hex within 500 ms. */
  async ask(...queries) {
    process.stdin.setRawMode(true)
    let got = Buffer.alloc(0)
    process.stdin.on('data', (chunk) => (got = Buffer.concat([got, chunk])))
    put('ready\r\n')
    for (const query of queries) {
      got = Buffer.alloc(0)
      put(Buffer.from(query, 'hex'))
      await sleep(500)
      put(`answer:${query}=${got.toString('hex')};\r\n`)
    }
    put('asked\r\n')
    forever()
  },

  /** Does not end on HUP, INT or TERM. */
  ignore() {
    for (const signal of ['SIGHUP', 'SIGINT', 'SIGTERM']) process.on(signal, () => put(`ignored ${signal}\n`))
    put('ready\n')
    forever()
  },

  /** Starts a helper in a session of its own and prints its pid; both stay. `exit` as argument: leave at once. */
  helper(then = 'stay') {
    const helper = spawn('sleep', ['300'], { detached: true, stdio: 'ignore' })
    put(`helper:${helper.pid}\nready\n`)
    if (then === 'exit') process.exit(0)
    forever()
  },

  /** Prints its environment as JSON between markers. */
  env() {
    put(`ENV<${JSON.stringify(process.env)}>ENV\nready\n`)
    forever()
  },

  /** <ms> <code>: lives that long, prints `bye`, ends with the code. */
  async exit(ms = '0', code = '0') {
    put('ready\n')
    await sleep(Number(ms))
    put('bye\n')
    process.exitCode = Number(code)
  },

  /** <file> <code>: ends with the code once the file exists. */
  async gate(file, code = '0') {
    put('ready\n')
    for (;;) {
      try {
        readFileSync(file)
        break
      } catch {
        await sleep(20)
      }
    }
    put('bye\n')
    process.exitCode = Number(code)
  },

  /** Bracketed paste on, raw mode; prints what is inside and outside paste frames as JSON. `Q` outside ends. */
  paste() {
    process.stdin.setRawMode(true)
    put('\x1b[?2004h')
    let rest = ''
    process.stdin.on('data', (chunk) => {
      rest += chunk.toString('latin1')
      for (;;) {
        const start = rest.indexOf('\x1b[200~')
        const end = rest.indexOf('\x1b[201~')
        if (start === 0 && end > 0) {
          put(`paste:${JSON.stringify(rest.slice(6, end))}\r\n`)
          rest = rest.slice(end + 6)
        } else if (start === 0) return
        else if (rest.length > 0) {
          const keys = start > 0 ? rest.slice(0, start) : rest
          rest = rest.slice(keys.length)
          put(`keys:${JSON.stringify(keys)}\r\n`)
          if (keys.includes('Q')) process.exit(0)
        } else return
      }
    })
    put('ready\r\n')
  },

  /** <hex>: prints these bytes, then `ready`. */
  print(hex) {
    put(Buffer.from(hex, 'hex'))
    put('ready\n')
    forever()
  },
}

const script = scripts[what]
if (script === undefined) {
  console.error(`no script ${what}`)
  process.exit(64)
}
await script(...args)
