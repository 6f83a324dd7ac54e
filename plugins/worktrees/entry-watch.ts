/**
 * Tells when entries of directories may have come, gone or changed. One watch per directory, whoever asked for it. Where
 * none can be had nothing is told, and what depends on it is looked at when something of the session changes.
 */
import { watch, type FSWatcher } from 'node:fs'
import { basename } from 'node:path'
import type { Scope } from '../../kernel/scope.ts'

/** Kernels bound how many there are for a user; ours are a small part of them. */
const MAX_WATCHES = 256
/** A rebase writes HEAD many times. */
const SETTLE_MS = 50

/** Entries of one directory, by name. */
export interface Entries {
  readonly directory: string
  readonly names: readonly string[]
}

interface Watched {
  readonly watcher: FSWatcher
  /** Names by session. */
  readonly sessions: Map<string, readonly string[]>
  /** Sessions that are told when it has settled. */
  readonly due: Set<string>
}

export class EntryWatch implements Disposable {
  readonly #scope: Scope
  readonly #changed: (sessionId: string) => void
  readonly #watched = new Map<string, Watched>()
  readonly #bySession = new Map<string, Entries>()

  constructor(scope: Scope, changed: (sessionId: string) => void) {
    this.#scope = scope
    this.#changed = changed
  }

  /** Entries of one directory per session; undefined: of none any more. Answers since when their changes are told. */
  follow(sessionId: string, entries: Entries | undefined): 'before' | 'now' | 'never' {
    const before = this.#bySession.get(sessionId)
    if (entries !== undefined && before !== undefined && isSame(entries, before)) return 'before'
    this.#leave(sessionId)
    if (entries === undefined) return 'never'
    const watched = this.#watched.get(entries.directory) ?? this.#open(entries.directory)
    if (watched === undefined) return 'never'
    watched.sessions.set(sessionId, entries.names)
    this.#bySession.set(sessionId, entries)
    return 'now'
  }

  [Symbol.dispose](): void {
    for (const directory of [...this.#watched.keys()]) this.#close(directory)
  }

  #open(directory: string): Watched | undefined {
    if (this.#watched.size >= MAX_WATCHES) return undefined
    try {
      // The directory, not the file: git puts a new one in its place.
      const watcher = watch(directory, { persistent: false })
      const watched: Watched = { watcher, sessions: new Map(), due: new Set() }
      watcher.on('change', (_, name) => {
        const told = [...watched.sessions].filter(([, names]) => name === null || names.includes(name.toString()))
        if (told.length > 0) this.#tell(directory, watched, told)
        // What watches the directory itself is told its own name when it is deleted or moved.
        else if (name === basename(directory)) this.#gone(directory)
      })
      watcher.on('error', () => this.#close(directory))
      this.#watched.set(directory, watched)
      return watched
    } catch {
      return undefined // it went away, or there are no more watches to be had
    }
  }

  #tell(directory: string, { due }: Watched, told: readonly (readonly [string, unknown])[]): void {
    if (this.#scope.closed) return
    const waits = due.size > 0
    for (const [id] of told) due.add(id)
    if (waits) return
    this.#scope.after(SETTLE_MS, 'entries', () => {
      const ids = [...due]
      due.clear()
      for (const id of ids) if (this.#bySession.get(id)?.directory === directory) this.#changed(id)
    })
  }

  /** The directory itself went away; one that takes its place is another one. */
  #gone(directory: string): void {
    const ids = [...(this.#watched.get(directory)?.sessions.keys() ?? [])]
    this.#close(directory)
    for (const id of ids) this.#changed(id)
  }

  #leave(sessionId: string): void {
    const entries = this.#bySession.get(sessionId)
    if (entries === undefined) return
    this.#bySession.delete(sessionId)
    const watched = this.#watched.get(entries.directory)
    watched?.sessions.delete(sessionId)
    if (watched?.sessions.size === 0) this.#close(entries.directory)
  }

  #close(directory: string): void {
    const watched = this.#watched.get(directory)
    if (watched === undefined) return
    this.#watched.delete(directory)
    for (const id of watched.sessions.keys()) this.#bySession.delete(id)
    watched.watcher.close()
  }
}

const isSame = (a: Entries, b: Entries): boolean =>
  a.directory === b.directory && a.names.length === b.names.length && a.names.every((it, at) => it === b.names[at])
