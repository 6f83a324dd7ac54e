/** pohunek doctor: checks of this user's environment, and the daemon's own when one answers. It starts none. */
import { accessSync, constants, existsSync, lstatSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { connect, type Client } from '../client/client.ts'
import { wayTo } from '../platform/roots.ts'
import { JSON_FLAG, type Command, type Outcome } from '../protocol/command.ts'
import { messageOf } from '../protocol/fault.ts'
import type { Cli } from './cli.ts'
import { daemonElsewhere, foreignRoots } from './running-daemon.ts'

type Status = 'ok' | 'warn' | 'fail'
interface Check {
  name: string
  status: Status
  detail: string
}

const LEAST_NODE = [20, 19] as const

function nodeCheck(version: string): Check {
  const [major = 0, minor = 0] = version.split('.').map(Number)
  const good = major > LEAST_NODE[0] || (major === LEAST_NODE[0] && minor >= LEAST_NODE[1])
  return {
    name: 'node',
    status: good ? 'ok' : 'fail',
    detail: good ? version : `${version}; install ${LEAST_NODE.join('.')} or newer`,
  }
}

function directoryCheck(name: string, path: string): Check {
  // What does not exist yet is made by the daemon: then its nearest parent counts.
  let there = path
  while (!existsSync(there) && dirname(there) !== there) there = dirname(there)
  try {
    accessSync(there, constants.W_OK | constants.X_OK)
    return { name, status: 'ok', detail: path }
  } catch {
    return { name, status: 'fail', detail: `${there} is not writable for you` }
  }
}

function runtimeCheck(cli: Cli): Check {
  const { runtime, runtimeIsFallback } = cli.roots
  const stat = lstatSync(runtime, { throwIfNoEntry: false })
  const name = 'runtime_dir'
  if (stat !== undefined) {
    if (!stat.isDirectory()) return { name, status: 'fail', detail: `${runtime} is not a directory; remove it` }
    if (stat.uid !== process.geteuid?.())
      return { name, status: 'fail', detail: `${runtime} belongs to another user; set XDG_RUNTIME_DIR` }
    if ((stat.mode & 0o077) !== 0) return { name, status: 'fail', detail: `${runtime} is open to others; chmod 700 it` }
  }
  return runtimeIsFallback
    ? {
        name,
        status: 'warn',
        detail: `XDG_RUNTIME_DIR is not set; ${runtime} is used and does not survive a clean-up of it`,
      }
    : { name, status: 'ok', detail: runtime }
}

async function daemonChecks(cli: Cli): Promise<Check[]> {
  const name = 'daemon'
  try {
    using client = await connect({ env: cli.env, socketPath: cli.roots.daemonSocket })
    const health = await client.call('daemon.health', null)
    const version: Check = {
      name,
      status: 'ok',
      detail: `version ${health.daemon_version}, protocol ${health.protocol_version}`,
    }
    return [version, ...foreign(cli), ...(await ownChecks(client))]
  } catch (failure) {
    const other = daemonElsewhere(cli.roots)
    if (other === undefined)
      return [{ name, status: 'warn', detail: `${(failure as Error).message}; the next command starts one` }]
    const where = other.serves === undefined ? 'another socket' : other.serves.socket
    const way = other.serves === undefined ? 'set XDG_RUNTIME_DIR as it was there' : wayTo(other.serves.runtime)
    return [{ name, status: 'fail', detail: `pid ${other.pid} serves your sessions on ${where}; ${way}` }]
  }
}

/** What the daemon finds itself; without its answer nothing is known of it, and that is no good report. */
async function ownChecks(client: Client): Promise<Check[]> {
  try {
    return (await client.call('daemon.doctor', null)).report.checks
  } catch (failure) {
    return [{ name: 'daemon_checks', status: 'fail', detail: `the daemon told no checks: ${messageOf(failure)}` }]
  }
}

/** The runtime directory is shared with somebody who keeps sessions elsewhere: another HOME, or other XDG variables. */
function foreign({ roots }: Cli): Check[] {
  const others = foreignRoots(roots)
  if (others.length === 0) return []
  const detail = `the daemon keeps its files in ${others.join(', ')}, not in yours; set XDG_RUNTIME_DIR to have your own daemon`
  return [{ name: 'daemon_roots', status: 'warn', detail }]
}

export const doctorCommand = (cli: Cli): Command => ({
  path: ['doctor'],
  about: 'check what pohunek needs on this machine',
  arguments: [],
  flags: [JSON_FLAG],
  json: true,
  async run(): Promise<Outcome> {
    const { roots } = cli
    const own = [
      nodeCheck(process.versions.node),
      runtimeCheck(cli),
      ...(['config', 'data', 'state', 'cache'] as const).map((it) => directoryCheck(`${it}_dir`, roots[it])),
      { name: 'worker_executable', ...worker(cli) },
    ]
    const daemon = await daemonChecks(cli)
    const checks = [...own, ...daemon.filter((it) => !own.some((mine) => mine.name === it.name))]
    const overall: Status = checks.some((it) => it.status === 'fail')
      ? 'fail'
      : checks.some((it) => it.status === 'warn')
        ? 'warn'
        : 'ok'
    return {
      ok: { report: { checks, overall } },
      human: [
        {
          table: { columns: ['CHECK', 'STATUS', 'DETAIL'], rows: checks.map((it) => [it.name, it.status, it.detail]) },
        },
        { line: `overall: ${overall}` },
      ],
      exitCode: overall === 'fail' ? 1 : 0,
    }
  },
})

function worker(cli: Cli): { status: Status; detail: string } {
  const path = join(dirname(cli.installation.daemon), 'pohunek-sessiond')
  try {
    accessSync(path, constants.X_OK)
    return { status: 'ok', detail: path }
  } catch {
    return { status: 'fail', detail: `${path} cannot be run; install pohunek again` }
  }
}
