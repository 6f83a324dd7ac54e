/**
 * Tells when the branch of a checkout may have changed: git writes HEAD anew for every checkout and rename. One watch per
 * git directory, whoever asked for it. Where none can be had nothing is told, and the branch is looked at when something
 * of the session changes.
 */
import { watch, type FSWatcher } from 'node:fs'
import { basename } from 'node:path'
import type { Scope } from '../../kernel/scope.ts'

/** Kernels bound how many there are for a user; ours are a small part of them. */
const MAX_WATCHES = 256
/** A rebase writes HEAD many times. */
const SETTLE_MS = 50

interface Watched {
  readonly watcher: FSWatcher
  readonly sessions: Set<string>
  pending: boolean
}

export class HeadWatch implements Disposable {
  readonly #scope: Scope
  readonly #changed: (sessionId: string) => void
  readonly #watched = new Map<string, Watched>()
  readonly #bySession = new Map<string, string>()

  constructor(scope: Scope, changed: (sessionId: string) => void) {
    this.#scope = scope
    this.#changed = changed
  }

  /** One git directory per session; undefined: none any more. Answers since when its changes are told. */
  follow(sessionId: string, gitDir: string | undefined): 'before' | 'now' | 'never' {
    if (gitDir !== undefined && this.#bySession.get(sessionId) === gitDir) return 'before'
    this.#leave(sessionId)
    const watched = gitDir === undefined ? undefined : (this.#watched.get(gitDir) ?? this.#open(gitDir))
    if (gitDir === undefined || watched === undefined) return 'never'
    watched.sessions.add(sessionId)
    this.#bySession.set(sessionId, gitDir)
    return 'now'
  }

  [Symbol.dispose](): void {
    for (const gitDir of [...this.#watched.keys()]) this.#close(gitDir)
  }

  #open(gitDir: string): Watched | undefined {
    if (this.#watched.size >= MAX_WATCHES) return undefined
    try {
      // The directory, not the file: git puts a new one in its place.
      const watcher = watch(gitDir, { persistent: false })
      const watched: Watched = { watcher, sessions: new Set(), pending: false }
      watcher.on('change', (_, name) => {
        if (name === null || name === 'HEAD' || name === 'gitdir') this.#tell(gitDir, watched)
        else if (name === basename(gitDir)) this.#gone(gitDir)
      })
      watcher.on('error', () => this.#close(gitDir))
      this.#watched.set(gitDir, watched)
      return watched
    } catch {
      return undefined // it went away, or there are no more watches to be had
    }
  }

  #tell(gitDir: string, watched: Watched): void {
    if (watched.pending || this.#scope.closed) return
    watched.pending = true
    this.#scope.after(SETTLE_MS, 'HEAD', () => {
      watched.pending = false
      if (this.#watched.get(gitDir) !== watched) return
      for (const id of [...watched.sessions]) this.#changed(id)
    })
  }

  /** The directory itself went away; one that takes its place is another one. */
  #gone(gitDir: string): void {
    const ids = [...(this.#watched.get(gitDir)?.sessions ?? [])]
    this.#close(gitDir)
    for (const id of ids) this.#changed(id)
  }

  #leave(sessionId: string): void {
    const gitDir = this.#bySession.get(sessionId)
    if (gitDir === undefined) return
    this.#bySession.delete(sessionId)
    const watched = this.#watched.get(gitDir)
    watched?.sessions.delete(sessionId)
    if (watched?.sessions.size === 0) this.#close(gitDir)
  }

  #close(gitDir: string): void {
    const watched = this.#watched.get(gitDir)
    if (watched === undefined) return
    this.#watched.delete(gitDir)
    for (const id of watched.sessions) this.#bySession.delete(id)
    watched.watcher.close()
  }
}
