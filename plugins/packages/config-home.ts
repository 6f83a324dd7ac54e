/** The directory an agent keeps its settings and conversations in, as a launch would give it. */
import { realpathSync } from 'node:fs'
import { basename, dirname, isAbsolute, join, normalize } from 'node:path'
import { isRemoved, matches } from '../../protocol/worker/environment.ts'
import type { RuntimeDescriptor } from './descriptor.ts'

export interface LaunchEnvironment {
  readonly daemon: Readonly<Record<string, string | undefined>>
  /** Names passed on beside HOME. */
  readonly allowlist: readonly string[]
  /** Of the host profile: wins. */
  readonly profile: Readonly<Record<string, string>>
}

/** Canonical where it exists; undefined when the runtime declares none or the value is no absolute path. */
export function configHome({ configHome: home }: RuntimeDescriptor, env: LaunchEnvironment): string | undefined {
  if (home === undefined) return undefined
  const named = given(home.env, env)
  const below = given('HOME', env)
  const path = named ?? (below === undefined ? undefined : join(below, home.default))
  return path !== undefined && isAbsolute(path) ? canonical(normalize(path)) : undefined
}

/** The same for a directory that is made later: what exists of the path is followed. */
function canonical(path: string): string {
  try {
    return realpathSync(path)
  } catch {
    const parent = dirname(path)
    return parent === path ? path : join(canonical(parent), basename(path))
  }
}

function given(name: string, { daemon, allowlist, profile }: LaunchEnvironment): string | undefined {
  const own = profile[name]
  if (own !== undefined) return own
  return !isRemoved(name) && matches(name, ['HOME', 'XDG_*', ...allowlist]) ? daemon[name] : undefined
}
