/**
 * Daemons and workers that die at a named point (platform/crash-points.ts): a build of their own, made once and kept
 * until a source changes, and a world whose daemon can be told where to die.
 */
import { execFileSync } from 'node:child_process'
import {
  chmodSync,
  chownSync,
  copyFileSync,
  cpSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs'
import { dirname, join, relative } from 'node:path'
import { expect, type TestContext } from 'vitest'
import type { Daemon } from './daemon.ts'
import { carrying, programOf, runs, show } from './processes.ts'
import { bin, makeRoots, REPOSITORY } from './roots.ts'
import type { Session } from './session.ts'
import { until } from './wait.ts'
import { Wire, type Answer } from './wire.ts'
import { World, type WorldOptions } from './world.ts'

const SOURCES = ['protocol', 'kernel', 'platform', 'plugins', 'worker', 'main', 'scripts', 'package-lock.json']
const CACHE = join(REPOSITORY, 'node_modules/.cache')
const KEEP_MS = 3_600_000

/** Newest change below a path, directories included. */
function newestMs(path: string): number {
  const stat = statSync(path)
  if (!stat.isDirectory()) return stat.mtimeMs
  return Math.max(stat.mtimeMs, ...readdirSync(path).map((name) => newestMs(join(path, name))))
}

let built: string | undefined

/** Directory of a build with crash points. Several test processes may ask at once: it is put in place whole. */
function crashBuild(): string {
  if (built !== undefined) return built
  const stamp = Math.round(Math.max(...SOURCES.map((it) => newestMs(join(REPOSITORY, it)))))
  const directory = join(CACHE, `pohunek-crash-${stamp}`)
  if (!existsSync(directory)) {
    const staged = `${directory}.${process.pid}`
    mkdirSync(join(staged, 'bin'), { recursive: true })
    copyFileSync(bin('pohunekd'), join(staged, 'bin/pohunekd'))
    cpSync(join(REPOSITORY, 'runtime-packages'), join(staged, 'runtime-packages'), { recursive: true })
    execFileSync(process.execPath, [join(REPOSITORY, 'scripts/build.mjs')], {
      cwd: REPOSITORY,
      stdio: 'inherit',
      env: { ...process.env, POHUNEK_CRASH_POINTS: 'true', POHUNEK_DIST: relative(REPOSITORY, join(staged, 'dist')) },
    })
    try {
      renameSync(staged, directory)
    } catch {
      rmSync(staged, { recursive: true, force: true }) // another test process was first
    }
    for (const name of readdirSync(CACHE).filter((it) => it.startsWith('pohunek-crash-'))) {
      const path = join(CACHE, name)
      if (path !== directory && statSync(path).mtimeMs < stamp - KEEP_MS) rmSync(path, { recursive: true, force: true })
    }
  }
  return (built = directory)
}

const CONFIG = ['[workers]', 'spares = 0', 'stop_grace_ms = 100', 'sweep_grace_ms = 1000']
const ID = /s-[0-9A-HJKMNP-TV-Z]{26}/

export class CrashWorld extends World {
  #uid: number | undefined

  /** A daemon serves its own user only, so its client is that user while it connects, and its files are that user's. */
  override async connect(): Promise<Wire> {
    return this.keep(await asUser(this.#uid, () => Wire.open(this.roots.socket)))
  }
  override profile(...args: Parameters<World['profile']>): string {
    const name = super.profile(...args)
    if (this.#uid !== undefined) give(this.roots.config, this.#uid)
    return name
  }

  /** Starts a daemon that dies at a point; `<name>` or `<name>:<n>`, undefined for one that lives. */
  async startDying(at?: string, options: { unready?: boolean; uid?: number } = {}): Promise<Daemon> {
    this.#uid = options.uid ?? this.#uid
    return await this.start({
      ...options,
      ...(this.#uid === undefined ? {} : { uid: this.#uid }),
      program: join(crashBuild(), 'bin/pohunekd'),
      env: { POHUNEK_CRASH_AT: at, POHUNEK_WORKER_BIN: this.#workerProgram() },
    })
  }

  /** Workers started from now on die at the point. */
  workersDieAt(at: string | undefined): void {
    writeFileSync(join(this.roots.work, 'worker-dies-at'), at ?? '', { mode: 0o644 })
  }

  /** Workers started from now on wait before they do anything, until the answered function is called or they are killed. */
  workersHang(): () => void {
    const told = join(this.roots.work, 'worker-dies-at')
    rmSync(told, { force: true })
    execFileSync('mkfifo', ['-m', '600', told])
    return () => {
      rmSync(told, { force: true })
      this.workersDieAt(undefined)
    }
  }

  /** The real worker, told by a file where to die: a worker gets nothing of the daemon's environment. */
  #workerProgram(): string {
    const path = join(this.roots.work, 'pohunek-sessiond-dying')
    if (!existsSync(path)) {
      const program = join(crashBuild(), 'dist/pohunek-sessiond.cjs')
      const told = join(this.roots.work, 'worker-dies-at')
      this.workersDieAt(undefined)
      writeFileSync(
        path,
        `#!/bin/sh\nPOHUNEK_CRASH_AT=$(cat '${told}')\nexport POHUNEK_CRASH_AT\nexec node '${program}' "$@"\n`,
      )
      chmodSync(path, 0o755)
    }
    return path
  }

  async sessions(): Promise<Answer[]> {
    return (await this.call('session.list')) as Answer[]
  }

  /** The daemon dies by its own hand; its workers too when the case says so; then the next one starts. */
  async restart(workersToo = false): Promise<void> {
    await this.dies()
    if (workersToo) await this.killWorkers()
    await this.startDying()
  }

  /** Dies while it stops a session whose worker does not answer; the next daemon is there. */
  async stopUnanswered(session: Session, at: string): Promise<void> {
    const worker = session.worker()
    await this.daemon.kill()
    process.kill(worker.pid, 'SIGSTOP')
    await this.startDying(at)
    expect((await session.info()).runtime.state).toBe('conflict')
    await expect(session.stop()).rejects.toThrow()
    if (runs(worker.pid)) process.kill(worker.pid, 'SIGCONT')
    await this.restart()
  }

  /** Dies while it finds out that a worker was lost; the next daemon is there. */
  async findLost(at: string): Promise<void> {
    await this.daemon.kill()
    await this.killWorkers()
    await this.startDying(at, { unready: true })
    await this.restart()
  }

  /** Waits until the daemon died by its own hand. */
  async dies(): Promise<void> {
    const { signal, code } = await this.daemon.ended()
    if (signal !== 'SIGKILL') throw new Error(`the daemon ended with ${code ?? signal}, not at its crash point`)
    await until('the daemon is gone', () => !runs(this.daemon.pid))
  }

  async killWorkers(): Promise<void> {
    const workers = this.running('worker')
    for (const it of workers) if (runs(it.pid)) process.kill(it.pid, 'SIGKILL')
    await until('the workers are gone', () => workers.every((it) => !runs(it.pid)))
  }

  /**
   * What is there of sessions the daemon does not list, of programs it tells as over, and of writes nobody finished.
   * An ended session may keep its worker for the last output.
   */
  async strays(): Promise<string[]> {
    const listed = new Map((await this.sessions()).map((it) => [it.id as string, it]))
    const owner = (text: string): Answer => listed.get(ID.exec(text)?.[0] ?? '')
    const files = (['runtime', 'state', 'cache'] as const).flatMap((root) =>
      this.files(root)
        .filter((path) =>
          ID.test(path)
            ? owner(path) === undefined || /\.tmp$|\.compacting$|(^|\/)\.[^/]+\.json\./.test(path)
            : /(^|\/)jobs\/.+/.test(path),
        )
        .map((path) => `${root}/${path}`),
    )
    const processes = carrying(this.roots.base).filter((it) => {
      if (programOf(it) === 'daemon') return it.pid !== this.daemon.pid
      const state = (owner(it.argv.join(' ')) ?? owner(markerOf(it.pid)))?.runtime.state
      return programOf(it) === 'worker'
        ? state === undefined || state === 'lost'
        : state === undefined || state === 'lost' || state === 'terminal'
    })
    return [...files, ...processes.map((it) => show([it]))]
  }

  async nothingStrays(): Promise<void> {
    let last: string[] = []
    await until(
      'nothing is left of sessions that are not listed',
      async () => (last = await this.strays()).length === 0,
      {
        deadlineMs: 15_000,
        pollMs: 30,
        show: () => last.join('\n'),
      },
    )
  }
}

function markerOf(pid: number): string {
  try {
    const entry = readFileSync(`/proc/${pid}/environ`, 'latin1')
      .split('\0')
      .find((it) => it.startsWith('POHUNEK_SESSION_ID='))
    return entry ?? ''
  } catch {
    return '' // gone meanwhile
  }
}

/** The points that the cases of one file die at; `<name>` or `<name>:<n>`, alone or first in a tuple. */
export class CrashCases {
  readonly #points = new Set<string>()

  of<const T extends readonly (string | readonly [string, ...unknown[]])[]>(all: T): T {
    for (const it of all) this.#points.add((typeof it === 'string' ? it : it[0]).split(':')[0] as string)
    return all
  }

  /** Those of `points` that no case dies at. */
  missing(points: readonly string[]): string[] {
    return points.filter((it) => !this.#points.has(it))
  }
}

/** Crash worlds at the same time: each costs several starts of node. */
const LANES = 2
let taken = 0
const waiting: (() => void)[] = []

/** Runs `body` in a world of its own and fails when anything is left of it. For concurrent tests. */
export async function inCrashWorld(
  context: TestContext,
  body: (w: CrashWorld) => Promise<void>,
  options: Omit<WorldOptions, 'daemon'> = {},
): Promise<void> {
  if (taken >= LANES) await new Promise<void>((resolve) => waiting.push(resolve))
  else taken += 1
  const w = new CrashWorld(makeRoots(), { config: `${CONFIG.join('\n')}\n`, ...options })
  let failed = true
  try {
    await body(w)
    failed = false
  } finally {
    if (failed) console.error(`${context.task.name}: daemon output and log:\n${w.log.join('')}\n${logOf(w)}`)
    const left = await w.end(failed)
    const next = waiting.shift()
    if (next === undefined) taken -= 1
    else next()
    if (left.length > 0) throw new Error(`left behind:\n${left.join('\n')}`)
  }
}

/** The end of the daemon's log of a world. */
export function logOf(w: World): string {
  try {
    return readFileSync(join(w.roots.state, 'pohunek/logs/pohunekd.jsonl'), 'utf8').split('\n').slice(-40).join('\n')
  } catch {
    return ''
  }
}

/** Users nobody else runs processes as: what one test hides would keep the cleanup of another one open. */
const FIRST_UID = 100_000
let users = 0

/**
 * Lets a world run as a user of its own without privileges: its roots belong to that user from now on. Answers the uid
 * to start the daemon with, or in words why it is impossible.
 */
export function unprivileged(w: World): number | string {
  if (process.geteuid?.() !== 0) return 'only root can run the daemon as a user of its own'
  for (let at = join(REPOSITORY, 'dist'); at !== dirname(at); at = dirname(at))
    if ((statSync(at).mode & 0o001) === 0) return `${at} is closed to other users`
  const uid = FIRST_UID + (process.pid % 100_000) * 100 + (users++ % 100)
  give(w.roots.base, uid)
  return uid
}

function give(path: string, uid: number): void {
  chownSync(path, uid, uid)
  if (statSync(path).isDirectory()) for (const name of readdirSync(path)) give(join(path, name), uid)
}

/** Runs the synchronous part of `act` as another user. */
function asUser<T>(uid: number | undefined, act: () => T): T {
  if (uid === undefined) return act()
  process.seteuid?.(uid)
  try {
    return act()
  } finally {
    process.seteuid?.(0)
  }
}

/** Shell words that start a process which cannot be looked into, in a session of its own, and wait for it. */
export const hiding = (told: string): string =>
  `setsid '${process.execPath}' '${join(REPOSITORY, 'test/harness/hidden.mjs')}' '${told}' & while ! [ -s '${told}' ]; do sleep 0.05; done`
