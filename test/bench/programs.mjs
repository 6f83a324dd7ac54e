// What runs inside the measured sessions: small shell scripts and generated output. The same files serve both sides.
import { constants, openSync, closeSync, readFileSync, writeSync, writeFileSync } from 'node:fs'
import { execFileSync } from 'node:child_process'
import net from 'node:net'
import { join } from 'node:path'
import { now } from './stats.mjs'

/** A FIFO that a program writes one line to; `next` resolves with the time of the next line. */
export class Signal {
  path
  #socket
  #waiting = []

  constructor(path) {
    this.path = path
    execFileSync('mkfifo', ['-m', '600', path])
    this.#socket = new net.Socket({
      fd: openSync(path, constants.O_RDWR | constants.O_NONBLOCK),
      readable: true,
      writable: false,
    })
    this.#socket.on('data', (chunk) => {
      const at = now()
      for (const byte of chunk) if (byte === 10) this.#waiting.shift()?.(at)
    })
  }

  next(timeoutMs = 120_000) {
    return new Promise((resolve, reject) => {
      const timer = setTimeout(() => reject(new Error(`the program did not report within ${timeoutMs} ms`)), timeoutMs)
      this.#waiting.push((at) => (clearTimeout(timer), resolve(at)))
    })
  }

  close() {
    this.#socket.destroy()
  }
}

/** A FIFO that a program waits at; `open` lets one waiting program pass. */
export class Gate {
  path
  #fd

  constructor(path) {
    this.path = path
    execFileSync('mkfifo', ['-m', '600', path])
    this.#fd = openSync(path, constants.O_RDWR)
  }

  open() {
    this.say('go')
  }

  /** One word for one program that reads lines here. */
  say(word) {
    writeSync(this.#fd, `${word}\n`)
  }

  close() {
    closeSync(this.#fd)
  }
}

/** Small deterministic generator, so that every run has the same bytes. */
function random(seed) {
  let state = seed
  return (below) => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0
    return Math.floor((state / 4_294_967_296) * below)
  }
}

const word = (pick) => {
  let text = ''
  for (let i = 2 + pick(9); i > 0; i--) text += String.fromCharCode(97 + pick(26))
  return text
}

function asciiBlock(pick) {
  let text = ''
  for (let line = 0; line < 10_000; line++) {
    const width = 60 + pick(60)
    let out = `${String(line).padStart(6, '0')} `
    while (out.length < width) out += `${word(pick)} `
    text += `${out}\n`
  }
  return text
}

/** Full repaints of a 200x50 screen as a full-screen program makes them: a move per row, a colour per few cells. */
function screenBlock(pick) {
  let text = ''
  for (let frame = 0; frame < 40; frame++) {
    text += '\x1b[H'
    for (let row = 1; row <= 50; row++) {
      text += `\x1b[${row};1H`
      for (let column = 0; column < 195;) {
        const piece = word(pick)
        const kind = pick(4)
        if (kind === 0) text += `\x1b[38;2;${pick(256)};${pick(256)};${pick(256)}m`
        else if (kind === 1) text += `\x1b[38;5;${pick(256)};48;5;${pick(256)}m`
        else if (kind === 2) text += `\x1b[1;3${pick(8)}m`
        else text += '\x1b[0m'
        text += `${piece} `
        column += piece.length + 1
      }
      text += '\x1b[0m\x1b[K'
    }
  }
  return text
}

function wideBlock(pick) {
  let text = ''
  for (let line = 0; line < 5_000; line++) {
    for (let cell = 20 + pick(50); cell > 0; cell--)
      text += pick(10) === 0 ? String.fromCodePoint(0x1f300 + pick(0x2ff)) : String.fromCodePoint(0x4e00 + pick(0x5000))
    text += '\n'
  }
  return text
}

export const kinds = {
  ascii: { label: 'plain ASCII lines', block: asciiBlock },
  screen: { label: 'SGR-heavy painting', block: screenBlock },
  wide: { label: 'CJK and emoji', block: wideBlock },
}

/** Writes `bytes` of one kind (to the end of the block that passes it) and answers the file and its true size. */
export function payload(directory, kind, bytes) {
  const path = join(directory, `${kind}.out`)
  const block = Buffer.from(kinds[kind].block(random(20_260_101)))
  const fd = openSync(path, 'w', 0o600)
  let size = 0
  for (; size < bytes; size += block.length) writeSync(fd, block)
  closeSync(fd)
  return { path, size }
}

export const END = 'E-n-D-of-OUTPUT'
export const READY = 'R-e-A-d-Y'

const script = (directory, name, body) => {
  const path = join(directory, `${name}.sh`)
  writeFileSync(path, body, { mode: 0o700 })
  return ['/bin/sh', path]
}

/** Waits at the gate, prints the file, reports its end, prints the end mark. */
export const printing = (directory, name, file, gate, done) =>
  script(
    directory,
    name,
    `printf '${READY}\\n'\nread -r go < '${gate}'\ncat '${file}'\necho done > '${done}'\nprintf '\\033[0m\\n${END}\\n'\nexec cat > /dev/null\n`,
  )

/** Reports that it runs, writes one word, stays. */
export const reporting = (directory, name, done) =>
  script(directory, name, `printf '${READY}\\n'\necho run > '${done}'\nexec cat > /dev/null\n`)

/** Echoes each key by itself, the terminal's own echo being off. */
export const echoing = (directory) => script(directory, 'echo', `stty raw -echo\nprintf '${READY}\\r\\n'\nexec cat\n`)

/** Floods the terminal while the flag file exists. */
export const flooding = (directory, name, file, flag) =>
  script(directory, name, `while :; do if [ -e '${flag}' ]; then cat '${file}'; else sleep 0.02; fi; done\n`)

/** One full coloured screen of 200x50 after `above` lines of scrollback; the end mark is its last cells. */
export function picture(directory, name, above) {
  const pick = random(7)
  const row = () => {
    let text = ''
    for (let used = 0; used < 180;) {
      const piece = word(pick)
      text += `\x1b[3${pick(8)}${pick(2) === 0 ? ';1' : ''}m${piece} `
      used += piece.length + 1
    }
    return `${text}\x1b[0m`
  }
  const lines = []
  for (let i = 0; i < above + 49; i++) lines.push(row())
  const file = join(directory, `${name}.txt`)
  writeFileSync(file, `${lines.join('\r\n')}\r\n${'.'.repeat(180)}${END}`, { mode: 0o600 })
  return script(directory, name, `stty raw -echo\ncat '${file}'\nexec cat > /dev/null\n`)
}

/** An agent as detection sees one: draws what it is told at the gate, reports that it did. `actingManifest` has its rules. */
export function acting(directory, name, gate, done) {
  const [, path] = script(
    directory,
    name,
    `#!/bin/sh
[ "$1" = --version ] && exec echo '2.1.200 (Claude Code)'
stty raw -echo
work() { printf '\\033[2J\\033[Han answer\\r\\n\\r\\n* Pondering (esc to interrupt)\\r\\n> '; }
rest() { printf '\\033[2J\\033[Han answer\\r\\n\\r\\n> '; }
ask() { printf '\\033[2J\\033[Han answer\\r\\n\\r\\nAllow this?\\r\\n1. Yes\\r\\n2. No'; }
rest
while read -r word; do $word; echo "$word" > '${done}'; done < '${gate}'
`,
  )
  return [path]
}

const RULES = new URL('../detection/acting-rules.toml', import.meta.url)

/** Manifest of `acting` programs; `cmdline` is a pattern for theirs. */
export const actingManifest = (cmdline) => `[process]
cmdline = ['${cmdline}']

${readFileSync(RULES, 'utf8')}`

export const idle = ['/bin/cat']
