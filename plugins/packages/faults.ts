/** Error catalogue of packages (contract/errors.md "runtime — agents, profiles, runtimes"). */
import { catalogue } from '../../protocol/fault.ts'

export const faults = catalogue({
  invalid_name: {
    class: 'runtime',
    say: (d: { name: string }) => `${JSON.stringify(d.name.slice(0, 200))} is not a valid agent name`,
    recover: 'use letters, digits, dot, dash and underscore',
  },
  invalid_profile: {
    class: 'runtime',
    say: (d: { file: string; key?: string; problem: string }) =>
      `profile ${d.file}${d.key === undefined ? '' : `, ${d.key}`}: ${d.problem}`,
    recover: 'correct the file',
  },
  runtime_not_installed: {
    class: 'runtime',
    say: (d: { runtime: string }) => `no enabled runtime ${JSON.stringify(d.runtime)} is installed`,
    recover: 'install or enable its runtime package',
  },
  agent_kind_unsupported: {
    class: 'runtime',
    say: (d: { label: string }) => `${JSON.stringify(d.label)} is not a runtime of this daemon`,
    recover: 'upgrade the daemon',
  },
  agent_binary_missing: {
    class: 'runtime',
    say: (d: { shell: string }) => `no login shell can be run (${d.shell})`,
    recover: 'set SHELL to an executable shell',
  },
  agent_runtime_unsupported: {
    class: 'runtime',
    say: (d: { name: string; path: string; found: string; range: string; version?: string }) =>
      `${d.name} at ${d.path} ${d.found}; supported are releases in ${d.range}`,
    recover: (d: { name: string; path: string; range: string; version?: string }) =>
      `install a release of ${d.name} in ${d.range}` +
      (d.version === undefined ? `; if it is one, try again, and see whether ${d.path} runs` : ''),
  },
  package_descriptor_invalid: {
    class: 'runtime',
    say: (d: { file: string; key?: string; problem: string }) =>
      `runtime descriptor ${d.file}${d.key === undefined ? '' : `, ${d.key}`}: ${d.problem}`,
    recover: 'install pohunek again, or correct the file',
  },
})
