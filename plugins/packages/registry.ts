/** The runtimes that are served, and the manifest that reads the screen of each agent. */
import { lstatSync } from 'node:fs'
import { join } from 'node:path'
import { FILE_NAME } from '../../protocol/scalars.ts'
import type { ManifestSource, RuntimeService } from './api.ts'
import type { OfficialSet } from './official.ts'
import { readManifest, readProfile } from './profile.ts'

interface Kept {
  /** Of the profile and of the manifest it named. */
  readonly stamps: string
  readonly manifest: string | undefined
  readonly source: ManifestSource | undefined
}

/** Agents with a manifest of their own are few; whoever has more reads some of them again. */
const MAX_KEPT = 256

export function runtimeService(official: OfficialSet, profiles: string): RuntimeService {
  const kept = new Map<string, Kept>()
  return {
    list: () => [...official.runtimes.values()],
    get: (id) => official.get(id),
    manifestOf(agent, base) {
      return ownManifest(agent, profiles, kept) ?? official.get(base)?.manifest
    },
  }
}

/** The manifest the profile of that name names, read again only when profile or manifest is another file. */
function ownManifest(agent: string, profiles: string, kept: Map<string, Kept>): ManifestSource | undefined {
  if (!FILE_NAME.test(agent)) return undefined
  const profileFile = join(profiles, `${agent}.toml`)
  const profileStamp = stampOf(profileFile)
  if (profileStamp === undefined) return undefined
  const stampsWith = (manifest: string | undefined): string =>
    `${profileStamp}|${manifest === undefined ? '' : (stampOf(join(profiles, 'manifests', `${manifest}.toml`)) ?? 'none')}`
  const known = kept.get(agent)
  if (known !== undefined && known.stamps === stampsWith(known.manifest)) return known.source
  const manifest = manifestNamed(profiles, agent)
  const stamps = stampsWith(manifest)
  const source = manifest === undefined ? undefined : readManifest(profiles, manifest, profileFile)
  if (kept.size >= MAX_KEPT) kept.clear()
  kept.set(agent, { stamps, manifest, source })
  return source
}

/** A profile that cannot be read any more names none: its runtime's manifest reads the screen then. */
function manifestNamed(profiles: string, agent: string): string | undefined {
  try {
    return readProfile(profiles, agent)?.manifest
  } catch {
    return undefined
  }
}

/** Another value for another file or content; undefined when there is none. */
function stampOf(file: string): string | undefined {
  try {
    const { dev, ino, size, mode, mtimeNs, ctimeNs } = lstatSync(file, { bigint: true })
    return [dev, ino, size, mode, mtimeNs, ctimeNs].join(':')
  } catch {
    return undefined
  }
}
