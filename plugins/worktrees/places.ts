/**
 * Which repository and branch a directory is in. A directory without a repository costs no process, and one whose
 * repository is known a look at two files: git is asked once per checkout.
 */
import { existsSync } from 'node:fs'
import { readFile, realpath, stat } from 'node:fs/promises'
import { basename, dirname, join } from 'node:path'
import { branchOf, findRepository, type Repository } from './git/repository.ts'
import type { Git } from './git/run.ts'
import { rootOf } from './projects.ts'

export type Place =
  | {
      readonly kind: 'repository'
      /** Canonical. */
      readonly directory: string
      readonly repository: Repository
      /** Left out while HEAD is detached, and outside of a work tree. */
      readonly branch: string | undefined
    }
  | { readonly kind: 'none'; readonly directory: string }
  /** There is no such directory. */
  | { readonly kind: 'missing' }

/** Checkouts that are remembered. */
const MAX_KNOWN = 256

export class Places {
  readonly #git: Git
  /** By the identity of what makes a directory a repository; the oldest use first. */
  readonly #known = new Map<string, Repository>()
  readonly #roots = new WeakMap<Repository, string>()

  constructor(git: Git) {
    this.#git = git
  }

  /** Throws GitFailure, and what the system refused: a directory that cannot be looked at is not missing. */
  async at(cwd: string, signal: AbortSignal): Promise<Place> {
    const directory = await directoryAt(cwd)
    if (directory === undefined) return { kind: 'missing' }
    const mark = await markAbove(directory)
    if (mark === undefined) return { kind: 'none', directory }
    const repository = this.#known.get(mark) ?? (await this.#ask(directory, signal))
    if (repository === undefined) return { kind: 'none', directory }
    this.#remember(mark, repository)
    const branch = repository.topLevel === undefined ? undefined : await this.#branch(repository, signal)
    return { kind: 'repository', directory, repository, branch }
  }

  /** Main checkout of a repository that `at` answered, or its common directory where there is none. Throws GitFailure. */
  async root(repository: Repository, signal: AbortSignal): Promise<string> {
    const known = this.#roots.get(repository)
    if (known !== undefined) return known
    const { root } = await rootOf(this.#git, repository, signal)
    this.#roots.set(repository, root)
    return root
  }

  /** What is known of a checkout that was just made: nobody has to ask for it. `root` as `root` answers it. */
  async learn(repository: Repository, root: string): Promise<void> {
    const mark = repository.topLevel === undefined ? undefined : await markAbove(repository.topLevel)
    if (mark === undefined) return
    this.#roots.set(repository, root)
    this.#remember(mark, repository)
  }

  async #ask(directory: string, signal: AbortSignal): Promise<Repository | undefined> {
    const found = await findRepository(this.#git, directory, signal)
    // One that git refuses to look at is none of ours either.
    return found.kind === 'repository' ? found.repository : undefined
  }

  async #branch({ gitDir, topLevel }: Repository, signal: AbortSignal): Promise<string | undefined> {
    const head = await readFile(join(gitDir, 'HEAD'), 'utf8').catch(() => '')
    const ref = /^ref: (refs\/heads\/.+)\n$/s.exec(head)?.[1]
    // Where refs are not files, HEAD names a branch that cannot be.
    if (ref !== undefined && ref !== 'refs/heads/.invalid') return branchOf(ref)
    if (/^[0-9a-f]{40,64}\n$/.test(head)) return undefined
    const asked = await this.#git.run(['symbolic-ref', '--quiet', 'HEAD'], {
      cwd: topLevel ?? gitDir,
      accept: [0, 1, 128],
      signal,
    })
    return asked.status === 0 ? branchOf(asked.text) : undefined
  }

  #remember(mark: string, repository: Repository): void {
    this.#known.delete(mark)
    this.#known.set(mark, repository)
    const [oldest] = this.#known.keys()
    if (this.#known.size > MAX_KNOWN && oldest !== undefined) this.#known.delete(oldest)
  }
}

/** Canonical; undefined: there is no such directory. Throws what the system refused. */
export async function directoryAt(cwd: string): Promise<string | undefined> {
  try {
    const directory = await realpath(cwd)
    return (await stat(directory)).isDirectory() ? directory : undefined
  } catch (failure) {
    if (['ENOENT', 'ENOTDIR', 'ELOOP'].includes((failure as NodeJS.ErrnoException).code ?? '')) return undefined
    throw failure
  }
}

/** What would have to change for a directory to go or, where it is gone, to come back; undefined for the root. */
export function entryOf(cwd: string): { readonly directory: string; readonly names: readonly string[] } | undefined {
  for (let at = cwd; dirname(at) !== at; at = dirname(at))
    if (existsSync(dirname(at))) return { directory: dirname(at), names: [basename(at)] }
  return undefined
}

/**
 * What git would begin with: the first directory upwards that has a `.git` or is a repository itself, as a key that is
 * another one when that is replaced. Undefined: git would find nothing.
 */
async function markAbove(directory: string): Promise<string | undefined> {
  for (let at = directory; ; at = dirname(at)) {
    const dot = await stat(join(at, '.git')).catch(() => undefined)
    // A file that points elsewhere is written anew when what it points at moves; a directory changes all the time.
    // The number of what was deleted may be given out again at once.
    if (dot !== undefined) return JSON.stringify([at, dot.dev, dot.ino, dot.isFile() ? dot.mtimeMs : dot.birthtimeMs])
    if (await isRepository(at)) return JSON.stringify([at])
    if (dirname(at) === at) return undefined
  }
}

async function isRepository(path: string): Promise<boolean> {
  for (const part of ['HEAD', 'objects', 'refs'])
    if ((await stat(join(path, part)).catch(() => undefined)) === undefined) return false
  return true
}
