import { catalogue } from '../protocol/fault.ts'

/** What this layer can refuse. Codes named in contract/errors.md keep their class; the others are ours. */
export const platformFaults = catalogue({
  platform_unsupported: {
    class: 'configuration',
    say: (d: { what: string; platform: string }) => `${d.what} is not available on ${d.platform}`,
    recover: 'run pohunek on Linux',
  },
  path_not_private: {
    class: 'configuration',
    say: (d: { path: string; found: string; fix?: string }) => `${d.path} is not private to this user: ${d.found}`,
    recover: (d: { fix?: string }) => d.fix ?? 'move it away or choose another directory',
  },
  file_too_large: {
    class: 'configuration',
    say: (d: { path: string; bytes: number; maxBytes: number }) =>
      `${d.path} has ${d.bytes} bytes, the limit is ${d.maxBytes}`,
    recover: (d: { path: string }) => `make ${d.path} smaller, or move it away`,
  },
  worker_exited_before_ready: {
    class: 'runtime',
    say: (d: { how: string; log: string }) => `the session worker ended before it was ready: ${d.how}`,
    recover: (d: { log: string }) => `look at the worker log ${d.log}`,
  },
  worker_connect_failed: {
    class: 'runtime',
    say: (d: { waitedMs: number; log: string }) => `the session worker was not ready after ${d.waitedMs} ms`,
    recover: (d: { log: string }) => `look at the worker log ${d.log}`,
  },
  worker_operation_failed: {
    class: 'runtime',
    say: (d: { problem: string }) => d.problem,
  },
  worker_manager_unavailable: {
    class: 'runtime',
    say: (d: { problem: string }) => `the service manager of this user cannot start a worker: ${d.problem}`,
    recover: 'look at systemctl --user status, or set [supervisor] kind = "detached" in config.toml',
  },
  runtime_supervision_unavailable: {
    class: 'runtime',
    say: (d: { problem: string }) => `the service manager of this user cannot be asked: ${d.problem}`,
    recover: 'retry; systemctl --user status tells whether it runs',
  },
  service_manager_environment_unavailable: {
    class: 'runtime',
    say: (d: { problem: string }) => `the service manager of this user cannot be used: ${d.problem}`,
    recover:
      'log in through a session with a systemd user manager (systemctl --user status), or go on without a service',
  },
  service_environment_invalid: {
    class: 'configuration',
    say: (d: { problem: string }) => `no unit file can be written: ${d.problem}`,
    recover: 'use directories with ordinary names',
  },
  service_failed: {
    class: 'runtime',
    say: (d: { unit: string; what: string; problem: string }) =>
      `the service manager could not ${d.what} ${d.unit}: ${d.problem}`,
    recover: (d: { unit: string }) => `journalctl --user -u ${d.unit} and pohunek doctor tell more; sessions are safe`,
  },
  client_file_descriptors_exhausted: {
    class: 'runtime',
    say: (_: Record<string, never>) => 'the daemon has no free file descriptor left',
    recover:
      'raise the open files limit of the daemon (ulimit -n), or end sessions and clients; what was asked was not done',
  },
  system_file_descriptors_exhausted: {
    class: 'runtime',
    say: (_: Record<string, never>) => 'the system has no free file descriptor left',
    recover: 'raise fs.file-max, or end programs that hold many files',
  },
  spawn_failed: {
    class: 'runtime',
    say: (d: { executable: string; problem: string }) =>
      `the session worker ${d.executable} could not be started: ${d.problem}`,
    recover: 'raise the limit named, or reinstall when the program is missing',
  },
})
