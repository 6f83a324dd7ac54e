/** Which release a program is, asked once per file: the same file answers the same. */
import { stat } from 'node:fs/promises'
import { messageOf } from '../../protocol/fault.ts'
import type { FoundProgram } from '../sessions/api.ts'
import { faults } from './faults.ts'
import { probe, type ProbeEdges } from './probe.ts'
import { isSupported, rangeName, releaseIn, releaseName, type Release, type VersionPolicy } from './version.ts'

export interface VersionVerdict {
  readonly supported: boolean
  /** MAJOR.MINOR.PATCH, when it was told. */
  readonly version?: string
  /** What was found instead of a supported release, to follow the program's name in a sentence. */
  readonly found?: string
}

const MAX_KEPT = 256
const MAX_TRIES = 2

export class Versions {
  readonly #edges: ProbeEdges
  readonly #known = new Map<string, Release>()
  readonly #asking = new Map<string, Promise<Release | string>>()

  constructor(edges: ProbeEdges) {
    this.#edges = edges
  }

  /** Runs the program unless this very file was asked before. Never throws. `path` is the PATH it is run with. */
  async verdict(program: string, path: string, policy: VersionPolicy): Promise<VersionVerdict> {
    const release = await this.#release(program, path, policy)
    if (typeof release === 'string') return { supported: false, found: release }
    const version = releaseName(release)
    return isSupported(release, policy)
      ? { supported: true, version }
      : { supported: false, version, found: `is release ${version}` }
  }

  /** Throws agent_runtime_unsupported unless the program is a supported release. */
  async require(name: string, program: FoundProgram, path: string, policy: VersionPolicy): Promise<void> {
    const { supported, version, found } = await this.verdict(program.path, path, policy)
    if (supported) return
    const range = rangeName(policy)
    const told = version === undefined ? {} : { version }
    throw faults.agent_runtime_unsupported({ name, path: program.path, found: found ?? 'is not known', range, ...told })
  }

  /**
   * The release, or in words why it is not known. Only a release is kept: what failed may be mended or only slow. It is
   * that of the file that is there when it was told: a program that replaced itself meanwhile is asked once more.
   */
  async #release(program: string, path: string, policy: VersionPolicy): Promise<Release | string> {
    for (let tries = 0; tries < MAX_TRIES; tries++) {
      const key = await identity(program, policy)
      if (key === undefined) return 'is gone'
      const known = this.#known.get(key)
      if (known !== undefined) return known
      const asking =
        this.#asking.get(key) ??
        this.#ask(program, path, policy).finally(() => {
          this.#asking.delete(key)
        })
      this.#asking.set(key, asking)
      const release = await asking
      if (typeof release === 'string') return release
      if ((await identity(program, policy)) !== key) continue
      this.#keep(key, release)
      return release
    }
    return 'became another file while it was asked for its release'
  }

  async #ask(program: string, path: string, policy: VersionPolicy): Promise<Release | string> {
    const { args, timeoutMs } = policy
    const answer = await probe({ program, args, path, timeoutMs }, this.#edges).catch((failure: unknown) => ({
      problem: `could not be asked (${messageOf(failure)})`,
    }))
    if ('problem' in answer) return answer.problem
    const output = policy.acceptStderr && answer.stdout === '' ? answer.stderr : answer.stdout
    return releaseIn(output, policy) ?? `does not tell its release to ${args.join(' ')} in the known form`
  }

  #keep(key: string, release: Release): void {
    if (this.#known.size >= MAX_KEPT) this.#known.clear()
    this.#known.set(key, release)
  }
}

/** Changes with the file behind the name and with what it is asked. */
async function identity(program: string, policy: VersionPolicy): Promise<string | undefined> {
  try {
    const { dev, ino, size, mtimeNs, ctimeNs } = await stat(program, { bigint: true })
    return JSON.stringify([program, String(dev), String(ino), String(size), String(mtimeNs), String(ctimeNs), policy])
  } catch {
    return undefined
  }
}
