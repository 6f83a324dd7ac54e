/** Installs, shows and removes the daemon as a service of the user's manager. Sessions are units of their own. */
import { readFileSync, realpathSync } from 'node:fs'
import { delimiter, dirname, join } from 'node:path'
import { makeDirectories } from '../directories.ts'
import { platformFaults } from '../faults.ts'
import { removeFile, writeAtomicSync } from '../private-files.ts'
import type { Roots } from '../roots.ts'
import { serviceNamespace } from '../service-namespace.ts'
import type { Timing } from '../timing.ts'
import { daemonUnitFile, serviceEnvironment } from './daemon-unit.ts'
import { ManagerRefusal, ManagerUnavailable, busSocket } from './systemd-answers.ts'
import { SERVICE, SystemdManager, UNIT } from './systemd-bus.ts'
import { daemonUnit } from './systemd-unit.ts'

type Environment = Readonly<Record<string, string | undefined>>

/** From the start of the unit to its READY; the unit's own deadline comes later. */
const START_MS = 60_000
const STOP_MS = 40_000
const MAX_UNIT_BYTES = 1_048_576

export interface ServiceStatus {
  /** Unit name. */
  readonly unit: string
  /** Unit file. */
  readonly path: string
  readonly installed: boolean
  readonly enabled: boolean
  /** active, activating, deactivating, inactive, failed, … as the manager says. */
  readonly state: string
  readonly pid: number | undefined
}

export interface ServiceOptions {
  readonly env: Environment
  readonly roots: Roots
  readonly clock: Timing
}

export class SystemdService implements Disposable {
  readonly unit: string
  readonly #options: ServiceOptions
  readonly #bus: string | undefined
  readonly #systemd: SystemdManager

  constructor(options: ServiceOptions) {
    this.#options = options
    this.unit = daemonUnit(serviceNamespace(options.roots))
    this.#bus = busSocket(options.env)
    this.#systemd = new SystemdManager({ socket: this.#bus, clock: options.clock })
  }

  async status(): Promise<ServiceStatus> {
    return this.#asking(async () => {
      const path = await this.#path()
      const installed = readUnit(path) !== undefined
      const loaded = await this.#systemd.unit(this.unit)
      const [state, pid] =
        loaded === undefined
          ? ['inactive', 0]
          : await Promise.all([
              this.#systemd.property(loaded, UNIT, 'ActiveState'),
              this.#systemd.property(loaded, SERVICE, 'MainPID'),
            ])
      return {
        unit: this.unit,
        path,
        installed,
        enabled: installed && (await this.#isEnabled()),
        state: state as string,
        pid: pid === 0 ? undefined : (pid as number),
      }
    })
  }

  /**
   * Writes and enables the unit and has it run what the file says: started, or restarted when the file changed.
   * `beforeStart` clears the way once everything else is done. A first installation that does not start is taken back.
   */
  async install(
    executable: string,
    beforeStart: (status: ServiceStatus) => Promise<void>,
  ): Promise<ServiceStatus & { changed: boolean }> {
    return this.#asking(async () => {
      const before = await this.status()
      const text = await this.#text(executable)
      const old = readUnit(before.path)
      if (old !== text) {
        makeDirectories(dirname(before.path), 0o777)
        writeAtomicSync(before.path, text)
      }
      try {
        await this.#systemd.manager('Reload')
        await this.#systemd.manager('EnableUnitFiles', 'asbb', [[this.unit], false, true])
        await this.#systemd.manager('Reload')
        await beforeStart(before)
        const isCurrent = before.state === 'active' && old === text
        if (!isCurrent) await this.#start()
      } catch (failure) {
        if (old === undefined) await this.uninstall()
        throw failure
      }
      return { ...(await this.status()), changed: old !== text }
    })
  }

  /** Stops and forgets the service; answers what there was. */
  async uninstall(): Promise<ServiceStatus> {
    return this.#asking(async () => {
      const before = await this.status()
      if (before.state !== 'inactive' && before.state !== 'failed') {
        const stopping = await this.#systemd.job('StopUnit', 'ss', [this.unit, 'replace'])
        const result = await stopping.ended(STOP_MS)
        if (result !== 'done') throw platformFaults.service_failed({ unit: this.unit, what: 'stop', problem: result })
      }
      if (before.installed) {
        await this.#systemd.manager('DisableUnitFiles', 'asb', [[this.unit], false])
        removeFile(before.path)
      }
      await this.#systemd.manager('Reload')
      await this.#systemd.manager('ResetFailedUnit', 's', [this.unit]).catch((failure: unknown) => {
        if (!(failure instanceof ManagerRefusal)) throw failure // it is not loaded any more
      })
      return before
    })
  }

  [Symbol.dispose](): void {
    this.#systemd[Symbol.dispose]()
  }

  async #start(): Promise<void> {
    const starting = await this.#systemd.job('RestartUnit', 'ss', [this.unit, 'replace'])
    const result = await starting.ended(START_MS)
    if (result === 'done') return
    const path = await this.#systemd.unit(this.unit)
    const status = path === undefined ? undefined : await this.#systemd.property(path, SERVICE, 'ExecMainStatus')
    const problem =
      result === 'late' ? `it was not ready within ${START_MS} ms` : `${result}, exit status ${String(status)}`
    throw platformFaults.service_failed({ unit: this.unit, what: 'start', problem })
  }

  /** In the directory of the manager, whose variables may differ from the caller's. */
  async #path(): Promise<string> {
    const { XDG_CONFIG_HOME: config, HOME: home } = await this.#environment()
    const directory = join(config ?? join(home ?? this.#options.roots.home, '.config'), 'systemd/user')
    const searched = (await this.#systemd.managerProperty('UnitPath')) as string[]
    if (!searched.includes(directory)) {
      const problem = `it does not read units from ${directory}`
      throw platformFaults.service_manager_environment_unavailable({ problem })
    }
    return join(directory, this.unit)
  }

  async #environment(): Promise<Record<string, string>> {
    const entries = (await this.#systemd.managerProperty('Environment')) as string[]
    return Object.fromEntries(entries.map((it) => [it.slice(0, it.indexOf('=')), it.slice(it.indexOf('=') + 1)]))
  }

  async #text(executable: string): Promise<string> {
    const { roots } = this.#options
    if (roots.runtimeIsFallback || this.#bus === undefined) {
      const problem = 'XDG_RUNTIME_DIR is not set here, so the service would use another runtime directory than you'
      throw platformFaults.service_manager_environment_unavailable({ problem })
    }
    const managerEnvironment = await this.#environment()
    try {
      const environment = serviceEnvironment({
        roots,
        managerEnvironment,
        bus: this.#bus,
        nodeDirectory: dirname(process.execPath),
        findsNode: firstNode(managerEnvironment['PATH'] ?? '') === realpathSync(process.execPath),
      })
      return daemonUnitFile({ executable, environment })
    } catch (failure) {
      throw platformFaults.service_environment_invalid({ problem: (failure as Error).message }, failure)
    }
  }

  async #isEnabled(): Promise<boolean> {
    try {
      const [state] = await this.#systemd.manager('GetUnitFileState', 's', [this.unit])
      return state === 'enabled'
    } catch (failure) {
      if (failure instanceof ManagerRefusal) return false
      throw failure
    }
  }

  async #asking<T>(ask: () => Promise<T>): Promise<T> {
    try {
      return await ask()
    } catch (failure) {
      if (failure instanceof ManagerUnavailable)
        throw platformFaults.service_manager_environment_unavailable({ problem: failure.message }, failure)
      if (failure instanceof ManagerRefusal)
        throw platformFaults.service_failed({ unit: this.unit, what: 'change', problem: failure.message }, failure)
      throw failure
    }
  }
}

/** Real path of the first node on `path`. */
function firstNode(path: string): string | undefined {
  for (const directory of path.split(delimiter)) {
    try {
      return realpathSync(join(directory, 'node'))
    } catch {
      // not here
    }
  }
  return undefined
}

function readUnit(path: string): string | undefined {
  try {
    const text = readFileSync(path, 'utf8')
    return text.length > MAX_UNIT_BYTES ? '' : text
  } catch (failure) {
    if ((failure as NodeJS.ErrnoException).code === 'ENOENT') return undefined
    throw failure
  }
}
