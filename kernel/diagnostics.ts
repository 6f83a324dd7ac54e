import { messageOf } from '../protocol/fault.ts'
import type { Diagnostics, Finding } from './plugin.ts'

type Check = Parameters<Diagnostics['add']>[0]

/** The registry behind daemon.doctor. Checks run one after another, in the order they were added. */
export function diagnostics(): Diagnostics {
  const checks = new Set<Check>()
  return {
    add(check) {
      checks.add(check)
      return { [Symbol.dispose]: () => void checks.delete(check) }
    },
    async run() {
      const found: ({ name: string; required: boolean } & Finding)[] = []
      for (const check of checks) found.push({ name: check.name, required: check.required, ...(await outcome(check)) })
      return {
        checks: found.map(({ name, status, detail }) => ({ name, status, detail })),
        overall: overall(found),
      }
    },
  }
}

async function outcome(check: Check): Promise<Finding> {
  try {
    return await check.run()
  } catch (failure) {
    return { status: 'fail', detail: messageOf(failure) }
  }
}

/** Pure. `fail` only for required failures; an optional one is a warning. */
function overall(found: readonly { required: boolean; status: Finding['status'] }[]): Finding['status'] {
  if (found.some((it) => it.required && it.status === 'fail')) return 'fail'
  return found.every((it) => it.status === 'ok') ? 'ok' : 'warn'
}
