/** Errors the CLI itself raises (contract/errors.md, "CLI-only codes"). */
import { catalogue } from '../protocol/fault.ts'

export const faults = catalogue({
  cli_usage: { class: 'configuration', say: (d: { problem: string }) => d.problem },
  ambiguous_session_name: {
    class: 'runtime',
    say: (d: { target: string; ids: readonly string[] }) =>
      `${JSON.stringify(d.target)} means ${d.ids.length} sessions: ${d.ids.slice(0, 8).join(', ')}${d.ids.length > 8 ? ', …' : ''}`,
    recover: 'use the id of one of them',
  },
  session_not_found: {
    class: 'runtime',
    say: (d: { target: string; short: boolean }) =>
      `no session ${JSON.stringify(d.target)}${d.short ? '; the beginning of an id counts from 4 characters behind s- on' : ''}`,
    recover: 'pohunek session list',
  },
  host_unknown: {
    class: 'discovery',
    say: (d: { host: string }) => `no host ${JSON.stringify(d.host)}`,
    recover: 'this release reaches the local daemon only: leave --host out or use --host local',
  },
  daemon_spawn_failed: {
    class: 'daemon',
    say: (d: { problem: string }) => `the daemon did not start: ${d.problem}`,
    recover: 'run pohunekd to see it fail in the foreground, or pohunek doctor',
  },
  /** The contract's code for a daemon that cannot be reached; this one can, from elsewhere. */
  daemon_unreachable: {
    class: 'daemon',
    say: (d: { socket: string; pid: number; other: string | undefined; way: string | undefined }) =>
      `no daemon answers on ${d.socket}, but one (pid ${d.pid}) already serves your sessions` +
      (d.other === undefined ? ' from another runtime directory' : ` on ${d.other}`),
    recover: (d: { way: string | undefined }) =>
      `${d.way ?? 'set XDG_RUNTIME_DIR as it was when that daemon was started'}; or end it, sessions run on: pohunek daemon stop`,
  },
  daemon_stop_failed: {
    class: 'daemon',
    say: (d: { pid: number; ms: number }) => `the daemon (pid ${d.pid}) did not end within ${d.ms} ms`,
    recover: 'its sessions are safe; look at its log, then end it with kill -9',
  },
  service_unsupported: {
    class: 'configuration',
    say: (d: { platform: string }) => `services are not supported on ${d.platform} in this release`,
    recover: 'pohunek starts a daemon when it needs one',
  },
  missing_env: { class: 'configuration', say: (d: { name: string }) => `${d.name} is not set`, recover: 'set it' },
  worker_stream_failed: { class: 'transport', say: (d: { problem: string }) => d.problem, recover: 'attach again' },
  io_error: { class: 'runtime', say: (d: { what: string; problem: string }) => `${d.what}: ${d.problem}` },
})
