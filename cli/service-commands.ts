/** pohunek service install|status|uninstall: the daemon as a service of the systemd user manager. */
import { after, monotonicMs } from '../client/clock.ts'
import { SystemdService, type ServiceStatus } from '../platform/linux/systemd-service.ts'
import { JSON_FLAG, type Command, type Outcome } from '../protocol/command.ts'
import type { Cli } from './cli.ts'
import { endDaemons } from './daemon-commands.ts'
import { faults } from './errors.ts'
import { daemonHere } from './running-daemon.ts'

const line = (text: string): { line: string } => ({ line: text })

const open = (cli: Cli): SystemdService => {
  if (process.platform !== 'linux') throw faults.service_unsupported({ platform: process.platform })
  return new SystemdService({ env: cli.env, roots: cli.roots, clock: { monotonic: monotonicMs, after } })
}

const told = ({ unit, path, installed, enabled, state, pid }: ServiceStatus): Record<string, unknown> => ({
  unit,
  path,
  installed,
  enabled,
  state,
  ...(pid === undefined ? {} : { pid }),
})

function install(cli: Cli): Command {
  return {
    path: ['service', 'install'],
    about: 'run the daemon as a service of your systemd user manager',
    details: [
      'Writes a unit file for your directories, enables and starts it. A daemon that runs already is ended first; its',
      'sessions keep running and are taken over. Again: the unit file is brought up to date.',
    ],
    arguments: [],
    flags: [JSON_FLAG],
    json: true,
    async run(): Promise<Outcome> {
      using service = open(cli)
      let replaced: number | undefined
      const { changed, ...status } = await service.install(cli.installation.daemon, async ({ pid }) => {
        // Whoever else holds the roots would keep the service from starting.
        if (daemonHere(cli.roots)?.pid !== pid) [replaced] = await endDaemons(cli)
      })
      return {
        ok: { ...told(status), changed, ...(replaced === undefined ? {} : { replaced_pid: replaced }) },
        human: [
          ...(replaced === undefined ? [] : [line(`daemon ended (pid ${replaced}); its sessions are taken over`)]),
          line(`${changed ? 'service installed' : 'service was installed already'}: ${status.unit} (${status.path})`),
          line(`daemon ${status.state}${status.pid === undefined ? '' : ` (pid ${status.pid})`}`),
        ],
      }
    },
  }
}

function status(cli: Cli): Command {
  return {
    path: ['service', 'status'],
    about: 'show the service of the daemon',
    details: ['Exit code 1 when it is not installed or not active.'],
    arguments: [],
    flags: [JSON_FLAG],
    json: true,
    async run(): Promise<Outcome> {
      using service = open(cli)
      const found = await service.status()
      return {
        ok: told(found),
        human: [
          {
            fields: [
              ['unit', found.unit],
              ['file', found.installed ? found.path : 'not installed'],
              ['enabled', found.enabled ? 'yes' : 'no'],
              ['state', found.state],
              ['pid', found.pid === undefined ? '-' : String(found.pid)],
            ],
          },
        ],
        exitCode: found.installed && found.state === 'active' ? 0 : 1,
      }
    },
  }
}

function uninstall(cli: Cli): Command {
  return {
    path: ['service', 'uninstall'],
    about: 'stop and remove the service of the daemon; sessions keep running',
    arguments: [],
    flags: [JSON_FLAG],
    json: true,
    async run(): Promise<Outcome> {
      using service = open(cli)
      const before = await service.uninstall()
      return {
        ok: { unit: before.unit, path: before.path, removed: before.installed, stopped: before.pid !== undefined },
        human: [
          line(
            before.installed
              ? `service removed: ${before.unit}; sessions keep running`
              : `no service is installed (${before.unit})`,
          ),
        ],
      }
    },
  }
}

export const serviceCommands = (cli: Cli): Command[] => [install(cli), status(cli), uninstall(cli)]
