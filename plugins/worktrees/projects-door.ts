/** What trees need to know of projects. */
import type { Repository } from './git/repository.ts'
import type { KnownProject } from './target.ts'

export interface ProjectDoor {
  /** By id or label. Throws project_not_found, project_ambiguous. */
  resolve(reference: string): KnownProject
  /** Registers the repository where it is not; undefined when that cannot be stored: a session does not fail for it. */
  ensure(repository: Repository): Promise<{ readonly id: string; readonly label: string } | undefined>
  /** A tree is gone: the sessions whose directories were in it show that. */
  left(path: string): void
  /** All there are. */
  repositories(): readonly { readonly commonDir: string; readonly repoRoot: string }[]
}
