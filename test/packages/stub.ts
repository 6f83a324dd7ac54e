/** Stub agents: small scripts that are found on PATH and answer a version probe. */
import { chmodSync, existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import type { Roots } from '../harness/roots.ts'
import { station, type Station, type StationOptions } from '../sessions/station.ts'

export const VERSION_LINES = {
  claude: '2.1.300 (Claude Code)',
  codex: 'codex-cli 0.171.0',
  hermes: 'Hermes Agent v0.20.1 (local)',
  pi: '0.73.1',
} as const

export class Stubs {
  readonly directory: string

  constructor(directory: string) {
    this.directory = directory
    mkdirSync(directory, { recursive: true })
  }

  /** What a station needs so that only these and the system's programs are found. */
  get env(): Record<string, string> {
    return { PATH: `${this.directory}:${dirname(process.execPath)}:/usr/bin:/bin` }
  }

  /**
   * A program whose `--version` runs `version` (shell) and that otherwise prints `argv <n>: [each][of][them]` and stays.
   * Each start adds a line to its log.
   */
  put(name: string, version: string): string {
    const path = join(this.directory, name)
    writeFileSync(
      path,
      `#!/bin/sh
here=\${0%/*}
echo "$*" >>"$here/${name}.log"
if [ "$1" = --version ]; then
${version}
exit
fi
printf 'argv %s: ' $#
for arg; do printf '[%s]' "$arg"; done
echo
exec cat
`,
    )
    chmodSync(path, 0o700)
    return path
  }

  /** Arguments of every start so far. */
  starts(name: string): string[] {
    const file = join(this.directory, `${name}.log`)
    return existsSync(file) ? readFileSync(file, 'utf8').split('\n').slice(0, -1) : []
  }
  probes(name: string): number {
    return this.starts(name).filter((it) => it === '--version').length
  }
}

export const stubsOf = (roots: Roots): Stubs => new Stubs(join(roots.work, 'bin'))

/** A station on whose PATH the stubs stand; the login shell knows no more. */
export async function agentStation(options: StationOptions = {}): Promise<{ it: Station; stubs: Stubs }> {
  const it = await station(options)
  const stubs = stubsOf(it.roots)
  await it.restart({ env: { ...stubs.env, ...options.env } })
  return { it, stubs }
}

export const say = (line: string): string => `printf '%s\\n' '${line}'`
