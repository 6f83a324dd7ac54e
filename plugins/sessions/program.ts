/** Finds the program of a launch plan: the daemon's PATH first, then what the caller and the login shell know. */
import { constants } from 'node:fs'
import { access, stat } from 'node:fs/promises'
import { isAbsolute, join } from 'node:path'
import type { FoundProgram } from './api.ts'
import { faults } from './faults.ts'
import type { LoginPath } from './login-path.ts'

export interface ProgramSearch {
  /** Of the configuration, tried before the daemon's PATH. */
  readonly configured: readonly string[]
  /** PATH of the daemon. */
  readonly path: string | undefined
  readonly login: LoginPath
}

/** Where `program` is. Throws agent_binary_missing naming where it was looked for. */
export async function findProgram(
  program: string,
  search: ProgramSearch,
  callerPath: string | undefined,
): Promise<FoundProgram> {
  if (program.includes('\0')) throw faults.agent_binary_missing({ program, path: 'nothing: the name is not valid' })
  if (isAbsolute(program)) {
    if (await isProgram(program)) return { path: program }
    throw faults.agent_binary_missing({ program, path: 'only that file: an absolute path was given' })
  }
  if (program === '' || program.includes('/'))
    throw faults.agent_binary_missing({ program, path: 'nothing: give a bare name or an absolute path' })
  const searched = new Set<string>()
  const own = await firstIn(program, [...search.configured, ...directories(search.path)], searched)
  if (own !== undefined) return { path: own }
  for (const ask of [() => directories(callerPath), () => search.login.ask()]) {
    const path = (await ask()) ?? []
    const found = await firstIn(program, path, searched)
    if (found !== undefined) return { path: found, searchPath: path.join(':') }
  }
  throw faults.agent_binary_missing({ program, path: [...searched].join(':') || 'an empty PATH' })
}

const directories = (path: string | undefined): string[] => (path ?? '').split(':').filter((it) => isAbsolute(it))

async function firstIn(program: string, path: readonly string[], searched: Set<string>): Promise<string | undefined> {
  for (const directory of path) {
    if (searched.has(directory)) continue
    searched.add(directory)
    const candidate = join(directory, program)
    if (await isProgram(candidate)) return candidate
  }
  return undefined
}

async function isProgram(path: string): Promise<boolean> {
  try {
    if (!(await stat(path)).isFile()) return false
    await access(path, constants.X_OK)
    return true
  } catch {
    return false
  }
}
