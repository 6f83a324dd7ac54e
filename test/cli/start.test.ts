/** npm start runs in the user's shell and leaves nothing of the user's changed. */
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, onTestFinished, test } from 'vitest'
import { run } from '../harness/cli.ts'
import { REPOSITORY } from '../harness/roots.ts'

const HISTORY = 'an old line\n'
const SHELLS: [string, string, string, string][] = [
  ['bash', '/bin/bash', '.bash_history', ''],
  ['bash with settings of its own', '/bin/bash', '.bash_history', 'HISTFILE=~/.bash_history\nshopt -s histappend\n'],
  [
    'zsh',
    '/bin/zsh',
    '.zsh_history',
    'HISTFILE=~/.zsh_history\nSAVEHIST=100\nHISTSIZE=100\nsetopt INC_APPEND_HISTORY\n',
  ],
]

test.each(SHELLS)(
  'the history of %s stays as it was',
  async (_, shell, file, settings) => {
    if (!existsSync(shell)) return
    const home = mkdtempSync('/tmp/phk-')
    onTestFinished(() => rmSync(home, { recursive: true, force: true }))
    writeFileSync(join(home, file), HISTORY)
    for (const rc of ['.bash_profile', '.zshrc']) writeFileSync(join(home, rc), settings)
    const { stdout, stderr, code } = await run(process.execPath, [join(REPOSITORY, 'scripts/start.mjs')], {
      cwd: REPOSITORY,
      env: { PATH: process.env.PATH ?? '', HOME: home, SHELL: shell, LANG: 'C.UTF-8', TERM: 'xterm-256color' },
      deadlineMs: 60_000,
    })
    expect({ code, stderr, text: stdout.slice(-3_000) }).toMatchObject({ code: 0 })
    expect(stdout).toContain('hello from process')
    expect(readFileSync(join(home, file), 'utf8')).toBe(HISTORY)
  },
  70_000,
)
