/** The daemon as a unit file of the user's service manager. Pure. */
import { dirname } from 'node:path'
import type { Roots } from '../roots.ts'

export interface DaemonUnit {
  /** Absolute path of bin/pohunekd. */
  readonly executable: string
  readonly environment: Readonly<Record<string, string>>
}

/** A daemon that adopts many sessions on a busy machine is not late; workers it starts are not in its unit. */
const START_SECONDS = 120
const STOP_SECONDS = 30
const RESTART_SECONDS = 1
/** So many failures within the time end the attempts: the configuration or the disk is at fault, not the moment. */
const FAILURES = { count: 5, seconds: 60 } as const
const EXIT_USAGE = 2

/** Throws an Error for a value a unit file cannot hold. */
export function daemonUnitFile({ executable, environment }: DaemonUnit): string {
  const variables = Object.entries(environment).map(([name, value]) => `Environment=${quoted(`${name}=${value}`)}`)
  return `${[
    '# Written by pohunek service install; pohunek service uninstall removes it.',
    '[Unit]',
    'Description=pohunek daemon',
    `StartLimitIntervalSec=${FAILURES.seconds}`,
    `StartLimitBurst=${FAILURES.count}`,
    '',
    '[Service]',
    'Type=notify',
    'NotifyAccess=main',
    `ExecStart=${quoted(executable)}`,
    ...variables,
    'WorkingDirectory=/',
    'Restart=on-failure',
    `RestartSec=${RESTART_SECONDS}`,
    `RestartPreventExitStatus=${EXIT_USAGE}`,
    'KillMode=control-group',
    `TimeoutStartSec=${START_SECONDS}`,
    `TimeoutStopSec=${STOP_SECONDS}`,
    '',
    '[Install]',
    'WantedBy=default.target',
  ].join('\n')}\n`
}

/** One word of a unit file: C escapes inside double quotes, `%` doubled. */
function quoted(text: string): string {
  if (/[\x00-\x1f\x7f]/.test(text)) throw new Error(`a control character in ${JSON.stringify(text)}`)
  return `"${text.replaceAll('\\', '\\\\').replaceAll('"', '\\"').replaceAll('%', '%%')}"`
}

export interface ServiceFacts {
  /** Of the caller; the service gets the same ones, whatever the manager's own variables say later. */
  readonly roots: Roots
  readonly managerEnvironment: Readonly<Record<string, string>>
  /** Socket of the session bus. */
  readonly bus: string
  /** Directory of the running node, and whether the manager's PATH leads to the same one. */
  readonly nodeDirectory: string
  readonly findsNode: boolean
}

/** What the service has beside the manager's environment: its roots, the bus, and a PATH with node if it needs one. */
export function serviceEnvironment(facts: ServiceFacts): Record<string, string> {
  const { roots, managerEnvironment, bus, nodeDirectory, findsNode } = facts
  const { DBUS_SESSION_BUS_ADDRESS: address, PATH: path = '/usr/local/bin:/usr/bin:/bin' } = managerEnvironment
  return {
    HOME: roots.home,
    XDG_RUNTIME_DIR: dirname(roots.runtime),
    XDG_CONFIG_HOME: dirname(roots.config),
    XDG_DATA_HOME: dirname(roots.data),
    XDG_STATE_HOME: dirname(roots.state),
    XDG_CACHE_HOME: dirname(roots.cache),
    ...(address === undefined ? { DBUS_SESSION_BUS_ADDRESS: `unix:path=${bus}` } : {}),
    ...(findsNode ? {} : { PATH: `${nodeDirectory}:${path}` }),
  }
}
