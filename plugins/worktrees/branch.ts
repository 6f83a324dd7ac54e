/** Branch names and the folder names made of them (contract/methods.md "Target resolution"). Pure. */
import { CONTROL_CHARACTER } from '../../protocol/scalars.ts'

/** Longest part of a path that any usual file system takes, less the session id and the separators. */
const MAX_SLUG_CHARS = 100
const MAX_REPO_CHARS = 60

/** Why a name is none that the contract refuses by itself; undefined when git's own grammar decides. */
export function branchProblem(name: string): string | undefined {
  if (name === '') return 'is empty'
  if (name.startsWith('-')) return 'starts with -'
  if (CONTROL_CHARACTER.test(name)) return 'has control characters'
  return undefined
}

/** git's grammar of branch names (git-check-ref-format). A name that differs from it is refused by git when it is made. */
export const isBranchName = (name: string): boolean =>
  branchProblem(name) === undefined &&
  !['HEAD', '@'].includes(name) &&
  !/[ ~^:?*[\\]|\.\.|@\{|\/\/|\.$|^\/|\/$/.test(name) &&
  name.split('/').every((part) => !part.startsWith('.') && !part.endsWith('.lock'))

/** ASCII letters, digits, `_` and `.` are kept, every other run becomes one `-`; empty when nothing is left. */
export function slugOf(text: string, maxChars = MAX_SLUG_CHARS): string {
  return text
    .replace(/[^A-Za-z0-9_.]+/g, '-')
    .slice(0, maxChars)
    .replace(/^[-.]+|[-.]+$/g, '')
}

/** Name of a managed tree's folder: `<session>-<repo>-<slug>`. */
export const treeName = (sessionId: string, repoName: string, branch: string): string =>
  [sessionId, slugOf(repoName, MAX_REPO_CHARS), slugOf(branch)].filter((it) => it !== '').join('-')

/** Branches whose names cannot exist beside `branch`: every folder above it. Git stores refs as paths. */
export function foldersAbove(branch: string): string[] {
  const parts = branch.split('/')
  return parts.slice(0, -1).map((_, at) => parts.slice(0, at + 1).join('/'))
}
