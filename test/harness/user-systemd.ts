/** A `systemd --user` for the tests of one file, started and taken down by user-systemd.sh. */
import { execFileSync, spawn } from 'node:child_process'
import { existsSync } from 'node:fs'
import { once } from 'node:events'
import { join } from 'node:path'
import { REPOSITORY } from './roots.ts'
import { within } from './wait.ts'

const SCRIPT = join(REPOSITORY, 'test/harness/user-systemd.sh')
const START_MS = 30_000
/** Exit status of the script when there can be no manager here. */
const IMPOSSIBLE = 125

export interface UserSystemd extends AsyncDisposable {
  readonly runtime: string
  readonly bus: string
  readonly home: string
  /** Variables that lead programs to this manager. */
  readonly env: { readonly XDG_RUNTIME_DIR: string; readonly DBUS_SESSION_BUS_ADDRESS: string }
  /** Output of `systemctl --user`; throws on failure. */
  systemctl(...args: string[]): string
  /** `systemctl --user show -p <property> --value <unit>`. */
  show(unit: string, property: string): string
  /** Names of loaded units that match. */
  units(pattern: string): string[]
}

/**
 * The manager, or why there can be none here, in words for a visible skip. With POHUNEK_REQUIRE_SYSTEMD=1 that is a
 * failure instead.
 */
export async function startUserSystemd(): Promise<UserSystemd | string> {
  const reason = impossible() ?? (await start())
  if (typeof reason !== 'string') return reason
  if (process.env['POHUNEK_REQUIRE_SYSTEMD'] === '1') throw new Error(`no systemd user manager: ${reason}`)
  console.warn(`skipped: no systemd user manager here: ${reason}`)
  return reason
}

function impossible(): string | undefined {
  if (process.platform !== 'linux') return 'this is not Linux'
  if (process.geteuid?.() !== 0) return 'starting one needs root'
  if (!existsSync('/lib/systemd/systemd')) return 'the package systemd is not installed'
  if (!existsSync('/usr/lib/systemd/user/dbus.socket')) return 'the package dbus-user-session is not installed'
  return undefined
}

async function start(): Promise<UserSystemd | string> {
  // The command ends with its standard input, so the manager goes with this process, however it ends.
  const told = 'printf "%s\\n" "$XDG_RUNTIME_DIR" "$DBUS_SESSION_BUS_ADDRESS" "$HOME"; exec cat'
  const child = spawn(SCRIPT, ['sh', '-c', told], { stdio: ['pipe', 'pipe', 'pipe'] })
  let out = ''
  let err = ''
  child.stderr.on('data', (bytes: Buffer) => (err += bytes.toString()))
  child.stdin.on('error', () => undefined)
  const lines = new Promise<string[] | undefined>((resolve, reject) => {
    child.once('error', reject)
    child.once('close', () => resolve(undefined))
    child.stdout.on('data', (bytes: Buffer) => {
      out += bytes.toString()
      const all = out.split('\n')
      if (all.length > 3) resolve(all)
    })
  })
  const [runtime, bus, home] = (await within('the user manager starts', lines, START_MS, () => err)) ?? []
  if (runtime === undefined || bus === undefined || home === undefined) {
    if (child.exitCode === IMPOSSIBLE) return err.trim()
    throw new Error(`user-systemd.sh ended with ${child.exitCode ?? child.signalCode}: ${err}`)
  }
  const env = { XDG_RUNTIME_DIR: runtime, DBUS_SESSION_BUS_ADDRESS: bus }
  const systemctl = (...args: string[]): string =>
    execFileSync('systemctl', ['--user', ...args], {
      env: { PATH: process.env['PATH'], HOME: home, ...env },
      encoding: 'utf8',
      stdio: ['ignore', 'pipe', 'pipe'],
      timeout: 20_000,
    }).trim()
  return {
    runtime,
    bus,
    home,
    env,
    systemctl,
    show: (unit, property) => systemctl('show', '-p', property, '--value', '--', unit),
    units: (pattern) =>
      systemctl('list-units', '--all', '--plain', '--no-legend', '--full', '--', pattern)
        .split('\n')
        .flatMap((line) => line.split(' ')[0] || []),
    async [Symbol.asyncDispose]() {
      if (child.exitCode !== null || child.signalCode !== null) return
      child.stdin.end()
      await within('the user manager ends', once(child, 'close'), START_MS, () => err)
    },
  }
}
