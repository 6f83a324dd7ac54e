/**
 * Browserless terminal check: what a client gets at its attach, fed into a fresh terminal, equals a terminal that saw
 * every byte, cell by cell. Programs that are not installed are played back from the byte sequences they are made of.
 */
import * as fs from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { differences, reference } from './grid.ts'
import { bash, startWorker, until, type TestWorker } from './harness.ts'

const COLUMNS = 100
const ROWS = 30
const installed = (name: string): boolean =>
  (process.env['PATH'] ?? '').split(':').some((it) => fs.existsSync(join(it, name)))

interface Program {
  name: string
  needs?: string
  argv: string[]
  /** Text that is on the screen once the program is up. */
  up: string
  keys?: string[]
  /** Text after the keys. */
  then?: string
  /** Byte sequences (printf form) played instead when `needs` is missing. */
  recorded?: string
}

const SAMPLE = 'for i in $(seq 1 300); do echo "row $i with some text 日本 and more"; done > sample.txt; '
// htop: meters with bars, a coloured header row in reverse, function keys at the bottom.
const METERS = String.raw`\033[?1049h\033[22;0;0t\033[1;30r\033(B\033[m\033[4l\033[?7h\033[?1h\033=\033[?1006;1000h\033[39;49m\033[?25l\033[H\033[2J\033[2;3H\033[36m  1\033[39m\033(B\033[0;1m[\033[32m|||||||||||\033[31m||\033[90m        12.5%%\033[39m]\033(B\033[m\033[3;3H\033[36mMem\033[0;1m[\033[32m||||||\033[34m|\033[33m|||\033[90m  1.2G/7.7G\033[39m]\033[m\033[7;1H\033[30;42m  PID USER      PRI  NI  VIRT   RES \033[30;46m CPU%%\033[30;42m MEM%%   TIME+  Command\033[K\033[8;1H\033[30;46m    1 root       20   0  165M 11264   0.0  0.1  0:01.12 /sbin/init\033[K\033[39;49m\033[9;1H  412 user       20   0 \033[36m 9\033[39m120 \033[32m├─ \033[1mnode\033[m worker\033[30;1HF1\033[30;46mHelp  \033[39;49mF2\033[30;46mSetup \033[39;49mF10\033[30;46mQuit\033[K\033[39;49m\033[4;40H\033[1m\033[36mTasks: \033[32m42\033[m`
// nano: title bar in reverse, text, a status line and two rows of shortcuts.
const EDITOR = String.raw`\033[?2004h\033[?1049h\033[22;0;0t\033[1;30r\033(B\033[m\033[4l\033[?7h\033[?12l\033[?25h\033[?1h\033=\033[H\033[2J\033(B\033[0;7m  GNU nano 7.2                              sample.txt                                            \033[1;99H\033(B\033[m\033[28;40H\033(B\033[0;7m[ Read 300 lines ]\033(B\033[m\r\033[29d\033(B\033[0;7m^G\033(B\033[m Help\033[29;20H\033(B\033[0;7m^O\033(B\033[m Write Out\r\033[30d\033(B\033[0;7m^X\033(B\033[m Exit\r\033[2d row 1 with some text 日本 and more\033[3;1Hrow 2\tand a tab\033[4;1H\033[1;33mfunction\033(B\033[m {\033[5;3H\033[?25l\033[?12l\033[?25h`

const PROGRAMS: Program[] = [
  {
    name: 'vim, edited and split',
    needs: 'vim',
    argv: bash(`${SAMPLE}exec vim -u NONE -N sample.txt`),
    up: 'row 1 ',
    keys: ['\x1b[B\x1b[B', ':set number hlsearch\r', '/row 5\r', ':split\r', 'Gix\x1b'],
    then: 'xrow 300',
  },
  {
    name: 'vim, left again',
    needs: 'vim',
    argv: bash(`${SAMPLE}echo BEFORE; vim -u NONE -N sample.txt; echo AFTER; exec sleep 60`),
    up: 'row 1 ',
    keys: [':q!\r'],
    then: 'AFTER',
  },
  {
    name: 'less',
    needs: 'less',
    argv: bash(`${SAMPLE}exec less -N sample.txt`),
    up: 'row 1 ',
    keys: [' ', '/row 77\r'],
    then: 'row 77',
  },
  {
    name: 'less, left again',
    needs: 'less',
    argv: bash(`${SAMPLE}less sample.txt; echo LEFT; exec sleep 60`),
    up: 'row 1 ',
    keys: ['q'],
    then: 'LEFT',
  },
  // One picture, then it waits: a moving one cannot be compared with itself.
  { name: 'top', needs: 'top', argv: bash('exec top -d 3600'), up: 'PID' },
  { name: 'htop', needs: 'htop', argv: bash('exec htop -d 6000'), up: 'PID', recorded: METERS },
  { name: 'nano', needs: 'nano', argv: bash(`${SAMPLE}exec nano sample.txt`), up: 'row 1 ', recorded: EDITOR },
  { name: 'meters as htop draws them', argv: bash(`printf '${METERS}'; exec sleep 60`), up: 'Tasks: 42' },
  { name: 'an editor as nano draws it', argv: bash(`printf '${EDITOR}'; exec sleep 60`), up: 'function' },
  {
    name: 'bash with colours',
    argv: ['/bin/bash', '--norc', '--noprofile', '-i'],
    up: 'bash',
    keys: [
      "PS1='\\[\\e[1;32m\\]me\\[\\e[0m\\]:\\[\\e[38;5;33m\\]~\\[\\e[0m\\]\\$ '\r",
      "for i in 30 31 32 91 '38;5;200' '48;2;10;20;30' 4 '4:3' 7 9; do printf \"\\e[${i}m<$i>\\e[0m \"; done; echo\r",
      'echo a long line that is typed until it wraps at the edge of the terminal and goes on in the row below it for a while',
    ],
    then: 'for a while',
  },
  {
    name: 'CJK and emoji',
    argv: bash(
      "for i in 1 2 3 4 5 6; do printf '日本語テキスト한국어中文'; done; printf '\\n👨\\u200d👩\\u200d👧 👍🏽 ❤\\ufe0f 1\\ufe0f\\u20e3 🇨🇿 e\\u0301 x\\n┌──┬──┐\\n│界│x │\\n└──┴──┘\\nEND'; exec sleep 60",
    ),
    up: 'END',
  },
  {
    name: 'alternate screen over a long scrollback',
    argv: bash(
      `${SAMPLE}cat sample.txt; printf '\\033[?1049h\\033[2J\\033[H\\033[44mBLUE\\033[K\\033[m\\033[10;10HALT'; exec sleep 60`,
    ),
    up: 'ALT',
  },
  {
    name: 'margins',
    argv: bash(
      "printf '\\033[5;20r\\033[?6h\\033[1;1H'; for i in $(seq 1 40); do echo \"in the region $i\"; done; printf '\\033[3;4Hhere'; exec sleep 60",
    ),
    up: 'here',
  },
  {
    name: 'sticky modes',
    argv: bash(
      "printf '\\033[?1h\\033=\\033[?1002h\\033[?1006h\\033[?1004h\\033[?2004h\\033[>1u\\033[>5u\\033[>4;2m\\033[3 q\\033]2;the title\\a\\033]11;#102030\\a\\033[?7l\\033[4hMODES\\033[?25l'; exec sleep 60",
    ),
    up: 'MODES',
  },
  {
    name: 'tmux inside',
    needs: 'tmux',
    argv: bash(
      "exec tmux -L $$ -f /dev/null new-session 'printf INNER; exec sleep 60' \\; split-window -h 'printf RIGHT; exec sleep 60'",
    ),
    up: 'RIGHT',
    recorded: METERS,
  },
]

/** Waits until the program has stopped drawing. */
async function quiet(worker: TestWorker): Promise<number> {
  let last = -1
  let since = performance.now()
  return until('the program is quiet', async () => {
    const { next_offset } = await worker.inspect()
    if (next_offset !== last) {
      last = next_offset
      since = performance.now()
    }
    return performance.now() - since > 250 && next_offset
  })
}

for (const program of PROGRAMS) {
  const plays = program.needs !== undefined && !installed(program.needs)
  test(`${program.name}${plays ? ' (played back: not installed)' : ''}`, async () => {
    const worker = await startWorker()
    if (plays && program.recorded === undefined)
      throw new Error(`${program.needs} is not installed and nothing is recorded for it`)
    const argv = plays ? bash(`printf '${program.recorded}'; exec sleep 60`) : program.argv
    await worker.initialize(argv, {
      dimensions: { columns: COLUMNS, rows: ROWS },
      environment: { TERM: 'xterm-256color' },
    })
    if (!plays) {
      await worker.shows(program.up)
      for (const keys of program.keys ?? []) {
        await worker.type(keys)
        await quiet(worker)
      }
      if (program.then !== undefined) await worker.shows(program.then)
    }
    const offset = await quiet(worker)
    const client = await worker.attach(COLUMNS, ROWS)
    await client.sees('\x1b[?2026l')
    expect((await worker.inspect()).next_offset, 'the program drew meanwhile').toBe(offset)
    const live = reference(COLUMNS, ROWS)
    live.feed(await worker.everything())
    const shown = reference(COLUMNS, ROWS)
    shown.feed(client.bytes)
    expect(differences(shown, live)).toEqual([])
    await client.detach()
    await worker.stop()
  })
}
