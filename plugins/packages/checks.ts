/** What packages look at for daemon.doctor: their own files, and whether the agents are installed. */
import type { Diagnostics, Finding } from '../../kernel/plugin.ts'
import type { SessionService } from '../sessions/api.ts'
import type { OfficialSet } from './official.ts'

type Check = Parameters<Diagnostics['add']>[0]

/** Agents whose programs doctor names (contract/types.md, DoctorCheck). */
const NAMED = ['codex', 'claude'] as const

export function packageChecks(official: OfficialSet, sessions: Pick<SessionService, 'findProgram'>): readonly Check[] {
  return [
    { name: 'runtime_packages', required: false, run: () => files(official) },
    ...NAMED.map((id) => ({ name: `bin:${id}`, required: false, run: () => program(id, official, sessions) })),
  ]
}

function files({ problems, runtimes }: OfficialSet): Finding {
  if (problems.length === 0) return { status: 'ok', detail: [...runtimes.keys()].join(', ') }
  return { status: 'warn', detail: `${problems.join('; ')}; install pohunek again` }
}

/** An agent nobody installed is no problem: it is told and not warned of. */
async function program(
  id: string,
  official: OfficialSet,
  sessions: Pick<SessionService, 'findProgram'>,
): Promise<Finding> {
  const runtime = official.get(id)?.descriptor.runtime
  if (runtime === undefined) return { status: 'warn', detail: `the runtime ${id} is not served` }
  const found = await sessions.findProgram(runtime.program).catch(() => undefined)
  const absent = `${runtime.program} is not installed; install it to run ${runtime.name} sessions`
  return { status: 'ok', detail: found?.path ?? absent }
}
