/** Real repositories for tests, made with git itself. */
import { execFileSync } from 'node:child_process'
import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import worktrees from '../../plugins/worktrees/plugin.ts'
import { station, type Station, type StationOptions } from '../sessions/station.ts'
import type { Answer } from '../harness/wire.ts'

const WHO = {
  GIT_AUTHOR_NAME: 'Test',
  GIT_AUTHOR_EMAIL: 'test@example.org',
  GIT_COMMITTER_NAME: 'Test',
  GIT_COMMITTER_EMAIL: 'test@example.org',
  GIT_CONFIG_NOSYSTEM: '1',
  GIT_CONFIG_GLOBAL: '/dev/null',
}

/** Runs git and answers what it printed, without the last line feed. */
export function git(cwd: string, ...args: string[]): string {
  return execFileSync('git', ['-c', 'protocol.file.allow=always', '-c', 'init.defaultBranch=main', ...args], {
    cwd,
    env: { PATH: process.env['PATH'], HOME: '/nowhere', ...WHO },
    encoding: 'utf8',
    stdio: ['ignore', 'pipe', 'pipe'],
  }).replace(/\n$/, '')
}

export class Repository {
  readonly path: string

  constructor(path: string) {
    this.path = path
  }

  git(...args: string[]): string {
    return git(this.path, ...args)
  }
  write(file: string, text: string): void {
    write(this.path, file, text)
  }
  /** Commits everything that is there. */
  commit(message = 'more'): string {
    this.git('add', '--all')
    this.git('commit', '--quiet', '--allow-empty', '--message', message)
    return this.git('rev-parse', 'HEAD')
  }
  branches(): string[] {
    return this.git('for-each-ref', '--format=%(refname:short)', 'refs/heads').split('\n')
  }
  trees(): string[] {
    return this.git('worktree', 'list', '--porcelain', '-z')
      .split('\0')
      .filter((it) => it.startsWith('worktree '))
      .map((it) => it.slice('worktree '.length))
  }
  rescues(): string[] {
    return this.git('for-each-ref', '--format=%(refname)', 'refs/pohunek')
      .split('\n')
      .filter((it) => it !== '')
  }
}

/** A repository on branch main with one commit of one file. */
export function repositoryAt(path: string): Repository {
  mkdirSync(path, { recursive: true })
  git(path, 'init', '--quiet')
  const it = new Repository(path)
  it.write('read.me', 'first\n')
  it.commit('first')
  return it
}

export function write(root: string, file: string, text: string): void {
  mkdirSync(dirname(join(root, file)), { recursive: true })
  writeFileSync(join(root, file), text)
}
export const read = (root: string, file: string): string | undefined =>
  existsSync(join(root, file)) ? readFileSync(join(root, file), 'utf8') : undefined

/** A daemon with this plugin, and one repository. */
export async function grove(options: StationOptions = {}): Promise<{ s: Station; repo: Repository }> {
  const s = await station({ ...options, plugins: [worktrees, ...(options.plugins ?? [])] })
  return { s, repo: repositoryAt(join(s.roots.work, 'repo')) }
}

/** A session in a tree of its own. */
export const branchOff = (
  s: Station,
  repo: Repository,
  branch: string,
  more: Record<string, unknown> = {},
): Promise<Answer> => s.create({ cwd: undefined, repo: repo.path, branch, ...more })
