/**
 * The projects of this host: one per repository, whatever its checkouts. Kept by the canonical common directory, named by
 * id or label. Nothing looks for repositories: a project is what somebody works in, or added.
 */
import { basename, dirname } from 'node:path'
import type { Clock } from '../../kernel/clock.ts'
import type { Log } from '../../kernel/log.ts'
import type { Table, TableSpec } from '../../kernel/store/tables.ts'
import * as v from 'valibot'
import { messageOf } from '../../protocol/fault.ts'
import { replaceControls } from '../../protocol/words.ts'
import { ProjectInfo, type ProjectListFilter } from './contract-projects.ts'
import { faults } from './faults.ts'
import { listTrees, type Repository } from './git/repository.ts'
import type { Git } from './git/run.ts'
import { redacted } from './urls.ts'

export const projectTable: TableSpec<ProjectInfo> = {
  kind: 'project',
  key: (it) => it.id,
  decode: (raw) => v.parse(ProjectInfo, raw),
  encode: (it) => it,
}

/** The list of all of them is one answer of one line. */
const MAX_PROJECTS = 1_000
/** `last_used_at` is written anew when it is older: sessions that start one after the other cost one write. */
const TOUCH_MS = 60_000

export interface ProjectEdges {
  readonly table: Table<ProjectInfo>
  readonly git: Git
  readonly clock: Clock
  readonly log: Log
  /** A label changed; undefined: the project is forgotten. */
  readonly relabelled: (id: string, label: string | undefined) => void
}

/** What a person says about a project. */
export interface Said {
  readonly label?: string
  readonly baseBranch?: string
}

export class Projects {
  readonly #edges: ProjectEdges
  /** Told once, not for every session. */
  #failing = false

  constructor(edges: ProjectEdges) {
    this.#edges = edges
  }

  /** By label, then id; every filter holds. */
  list(filters: readonly ProjectListFilter[] = []): ProjectInfo[] {
    return [...this.#edges.table.values()]
      .filter((it) => filters.every(({ key, value }) => it[key] === value))
      .sort((a, b) => compare(a.label, b.label) || compare(a.id, b.id))
  }

  /** By id, else by label. Throws project_not_found, project_ambiguous. */
  resolve(reference: string): ProjectInfo {
    const { table } = this.#edges
    const known = table.get(reference)
    if (known !== undefined) return known
    const named = this.list([{ key: 'label', value: reference }])
    const [only] = named
    if (only === undefined) throw faults.project_not_found({ reference })
    if (named.length > 1) throw faults.project_ambiguous({ reference, ids: named.map((it) => it.id) })
    return only
  }

  ofRepository(commonDir: string): ProjectInfo | undefined {
    for (const it of this.#edges.table.values()) if (it.git_common_dir === commonDir) return it
    return undefined
  }

  /**
   * The project of a repository somebody starts to work in, registered where it is new. Throws project_store_error,
   * GitFailure.
   */
  async ensure(repository: Repository, signal?: AbortSignal): Promise<ProjectInfo> {
    const known = this.ofRepository(repository.commonDir)
    if (known !== undefined) return await this.#touch(known)
    const facts = await factsOf(this.#edges.git, repository, signal)
    return this.ofRepository(repository.commonDir) ?? (await this.#register(facts, 'auto'))
  }

  /** Registers a repository by hand, or says more about one that is there. Throws project_store_error, GitFailure. */
  async add(repository: Repository, { label, baseBranch }: Said, signal: AbortSignal): Promise<ProjectInfo> {
    const facts = await factsOf(this.#edges.git, repository, signal)
    const base = baseBranch === undefined ? {} : { default_base_branch: baseBranch }
    const known = this.ofRepository(repository.commonDir)
    if (known === undefined) return await this.#register({ ...facts, ...base, label: label ?? facts.label }, 'manual')
    const next: ProjectInfo = { ...known, ...facts, ...base, label: label ?? known.label, source: 'manual' }
    if (facts.origin_url === undefined) delete next.origin_url
    await this.#put(next)
    if (next.label !== known.label) this.#edges.relabelled(next.id, next.label)
    return next
  }

  /** Throws project_store_error. */
  async rename(project: ProjectInfo, label: string): Promise<ProjectInfo> {
    const next = { ...(this.#edges.table.get(project.id) ?? project), label }
    await this.#put(next)
    this.#edges.relabelled(next.id, label)
    return next
  }

  /** False when it was gone already. Throws project_store_error. */
  async remove(id: string): Promise<boolean> {
    const { table, relabelled } = this.#edges
    if (table.get(id) === undefined) return false
    await stored(() => table.delete(id))
    relabelled(id, undefined)
    return true
  }

  async #register(facts: Facts, source: ProjectInfo['source']): Promise<ProjectInfo> {
    const { table, clock } = this.#edges
    if (table.size >= MAX_PROJECTS) {
      const problem = `${MAX_PROJECTS} projects are registered; pohunek project rm makes room`
      throw faults.project_store_error({ problem })
    }
    const at = new Date(clock.now()).toISOString()
    const id = freeId(facts.git_common_dir, (it) => table.get(it) !== undefined)
    const project: ProjectInfo = { id, ...facts, source, added_at: at, last_used_at: at }
    await this.#put(project)
    return project
  }

  async #touch(project: ProjectInfo): Promise<ProjectInfo> {
    const now = this.#edges.clock.now()
    if (now - Date.parse(project.last_used_at) < TOUCH_MS) return project
    const next = { ...project, last_used_at: new Date(now).toISOString() }
    try {
      await this.#put(next)
      this.#failing = false
      return next
    } catch (failure) {
      // Nobody's work stops for a time that is not on disk.
      if (!this.#failing)
        this.#edges.log.warn({ project_id: project.id, problem: messageOf(failure) }, 'the last use is not on disk')
      this.#failing = true
      return project
    }
  }

  #put(project: ProjectInfo): Promise<void> {
    return stored(() => this.#edges.table.put(project))
  }
}

type Facts = Pick<
  ProjectInfo,
  'label' | 'repo_root' | 'git_common_dir' | 'origin_url' | 'default_base_branch' | 'is_bare'
>

async function factsOf(git: Git, repository: Repository, signal: AbortSignal | undefined): Promise<Facts> {
  const { commonDir } = repository
  const call = { cwd: commonDir, signal }
  const { root, bare } = await rootOf(git, repository, signal)
  const origin = await git.run(['config', '--get', 'remote.origin.url'], { ...call, accept: [0, 1] })
  return {
    label: labelOf(root),
    repo_root: root,
    git_common_dir: commonDir,
    ...(origin.status === 0 && origin.text !== '' ? { origin_url: redacted(origin.text) } : {}),
    is_bare: bare,
  }
}

/** Main checkout of a repository, or its common directory where there is none. Throws GitFailure. */
export async function rootOf(
  git: Git,
  { commonDir, isBare, topLevel, isLinked }: Repository,
  signal?: AbortSignal,
): Promise<{ readonly root: string; readonly bare: boolean }> {
  if (isBare) return { root: commonDir, bare: true }
  // Asked from the main checkout itself this is right where git's own list is not: submodules, separate git directories.
  if (topLevel !== undefined && !isLinked) return { root: topLevel, bare: false }
  const [main] = await listTrees(git, commonDir, signal)
  return main === undefined || main.bare ? { root: commonDir, bare: true } : { root: main.path, bare: false }
}

/** Pure. The folder's name, readable on one line; of a bare `.git` the folder it is in. */
export function labelOf(root: string): string {
  const folder = basename(basename(root) === '.git' ? dirname(root) : root).replace(/(?<=.)\.git$/, '')
  const name = replaceControls(folder, ' ')
    .replace(/[\u2028\u2029]/g, ' ')
    .trim()
  return name === '' ? 'repository' : name
}

/** Pure. `p-` and the first half of FNV-1a-64 over the path; where another repository has it, the next number that is free. */
export function freeId(commonDir: string, taken: (id: string) => boolean): string {
  let number = Number(fnv1a64(commonDir) >> 32n)
  for (;;) {
    const id = `p-${number.toString(16).padStart(8, '0')}`
    if (!taken(id)) return id
    number = (number + 1) % 2 ** 32
  }
}

/** Pure. Over the UTF-8 bytes. */
export function fnv1a64(text: string): bigint {
  let hash = 0xcbf29ce484222325n
  for (const byte of Buffer.from(text)) hash = BigInt.asUintN(64, (hash ^ BigInt(byte)) * 0x100000001b3n)
  return hash
}

const compare = (a: string, b: string): number => (a < b ? -1 : a > b ? 1 : 0)

async function stored(write: () => Promise<void>): Promise<void> {
  try {
    await write()
  } catch (failure) {
    throw faults.project_store_error({ problem: messageOf(failure) }, failure)
  }
}
