/**
 * The operating system behind interfaces. Importing this loads no native code: koffi comes in with the first call of
 * `peerOf`, `lockFile` or a signal of `pinnedProcesses`, none of which the CLI or a worker makes.
 */
import { unsupported, unsupportedProcesses } from './darwin/unsupported.ts'
import { closeInherited as closeInheritedOnLinux } from './linux/descriptors.ts'
import { chooseSupervisor as chooseOnLinux, type ChoiceOptions } from './linux/chosen-supervisor.ts'
import { DetachedSupervisor, type DetachedOptions } from './linux/detached-supervisor.ts'
import { notifyManager } from './linux/notify.ts'
import { busSocket } from './linux/systemd-answers.ts'
import { lineMode as linuxLineMode } from './linux/line-mode.ts'
import { lockFile as linuxLockFile } from './linux/locks.ts'
import { peerOf as linuxPeerOf } from './linux/peers.ts'
import { withPidfd } from './linux/pidfd.ts'
import { linuxProcesses } from './linux/processes.ts'
import type { Peer } from './peers.ts'
import type { Processes } from './processes.ts'
import { serviceNamespace } from './service-namespace.ts'
import type { Supervisor } from './supervisor.ts'

export type { Peer } from './peers.ts'
export type { DetachedOptions } from './linux/detached-supervisor.ts'

const onLinux = process.platform === 'linux'

/** Facts about processes without native code; `signal` checks the identity, then kills. */
export const processes: Processes = onLinux ? linuxProcesses : unsupportedProcesses

/** For the daemon: `signal` pins the process by a pidfd before it checks its identity. */
export const pinnedProcesses: Processes = onLinux ? withPidfd(linuxProcesses) : unsupportedProcesses

/** See linux/descriptors.ts: first thing in the main of daemon and worker. Answers what was closed. */
export function closeInherited(keep: readonly number[] = []): number[] {
  return onLinux ? closeInheritedOnLinux(keep) : []
}

/** Peer of a connected unix socket as the kernel tells it; undefined where it cannot. */
export function peerOf(socketFd: number): Peer | undefined {
  return onLinux ? linuxPeerOf(socketFd) : undefined
}

/** See linux/line-mode.ts: whether the terminal of a process takes whole lines; false where that cannot be known. */
export function lineMode(pid: number): boolean {
  return onLinux && linuxLineMode(pid)
}

/** See linux/locks.ts: an exclusive lock until disposed or until this process ends, or 'held'. */
export function lockFile(path: string): Promise<Disposable | 'held'> {
  return onLinux ? linuxLockFile(path) : unsupported('file locking')
}

/** Workers as detached processes, found again by job files. */
export function detachedSupervisor(options: DetachedOptions): Supervisor {
  return onLinux ? new DetachedSupervisor(options) : unsupported('the detached supervisor')
}

export interface SupervisionOptions extends Omit<ChoiceOptions, 'namespace' | 'bus'> {
  /** <runtime>; it exists. */
  runtime: string
}

/** The supervisor this daemon starts workers with, which finds those of every form. */
export async function chooseSupervisor(options: SupervisionOptions): Promise<Supervisor> {
  if (!onLinux) return unsupported('a supervisor of workers')
  const { state, runtime, env } = options
  return chooseOnLinux({ ...options, namespace: serviceNamespace({ state, runtime }), bus: busSocket(env) })
}

/** Tells the service manager that started this process, if one did, what `state` says (sd_notify). Loads koffi. */
export function tellServiceManager(env: Readonly<Record<string, string | undefined>>, state: string): void {
  const socket = env['NOTIFY_SOCKET']
  if (onLinux && socket !== undefined && socket !== '') notifyManager(socket, state)
}
