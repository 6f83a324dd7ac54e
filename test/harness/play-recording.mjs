// Plays a recording (see recording.ts) in the terminal it is started in: node play-recording.mjs FILE [SPEED]
import { execFileSync } from 'node:child_process'
import { readFileSync, writeSync } from 'node:fs'

const [file, speed = '1'] = process.argv.slice(2)
const entries = readFileSync(file, 'utf8')
  .trimEnd()
  .split('\n')
  .slice(1)
  .map((line) => JSON.parse(line))
  .filter((it) => it.data !== undefined)
// Node's own raw mode leaves line feeds to the terminal, which would add to the recorded bytes.
execFileSync('stty', ['raw', '-echo'], { stdio: 'inherit' })
let typed = ''
process.stdin.on('data', (bytes) => {
  typed = (typed + bytes.toString('latin1')).slice(-64)
  if (/(^|[\r\n])quit[\r\n]/.test(typed)) process.exit(0)
})
process.stdin.on('end', () => process.exit(0))

const begun = performance.now()
let next = 0
function play() {
  for (; next < entries.length; next++) {
    const wait = entries[next].at / Number(speed) - (performance.now() - begun)
    if (wait > 0.5) return void setTimeout(play, wait)
    const bytes = Buffer.from(entries[next].data, 'base64')
    for (let at = 0; at < bytes.length;) at += writeSync(1, bytes, at)
  }
}
play()
