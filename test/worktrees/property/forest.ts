/** A real daemon and one repository per run; takes steps, and after each that the manager took part in, looks for losses. */
import { existsSync, mkdirSync, readdirSync, rmSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { logOf } from '../../harness/crash.ts'
import { makeRoots } from '../../harness/roots.ts'
import { pause, until } from '../../harness/wait.ts'
import { WireError, type Answer } from '../../harness/wire.ts'
import { World } from '../../harness/world.ts'
import { ageSessions, owedRemovals } from '../../retention/aging.ts'
import { git, repositoryAt, type Repository } from '../repository.ts'
import { judge, type Terms } from './judge.ts'
import { look, partOf, sessionOf, type Known, type Snapshot, type TreeState } from './snapshot.ts'
import type { ManagerStep, Step, UserStep } from './steps.ts'

const MAX_SESSIONS = 20
const CONFIG = '[workers]\nspares = 0\nstop_grace_ms = 100\nsweep_grace_ms = 1000\n'
const CALL_MS = 60_000
const SETTLED_MS = 40_000
const NONE: ReadonlySet<string> = new Set()
/** What the manager may answer to a wish that cannot be met; the state must be as before then. */
const REFUSALS = new Set([
  'invalid_branch',
  'worktree_branch_in_use',
  'worktree_in_use',
  'worktree_unsaved',
  'worktree_remove_failed',
  'session_not_running',
  // A machine so busy that a worker takes long to leave: the session stays, and everything of it.
  'runtime_supervision_ambiguous',
])

interface Sessions {
  readonly info: Answer
  readonly ended: boolean
}

export class Forest {
  readonly #world: World
  #count = 0
  #repo!: Repository
  /** Repository of its submodule. */
  #part!: Repository
  #known: Known = new Map()
  #moves = 0
  #serial = 0

  private constructor(world: World) {
    this.#world = world
  }

  static async start(): Promise<Forest> {
    const world = new World(makeRoots(), { config: CONFIG })
    world.profile('/bin/cat', [], { name: 'long' })
    world.profile('/bin/true', [], { name: 'brief' })
    await world.start()
    return new Forest(world)
  }

  /** Throws with what is wrong and the number of the step after which it is. */
  async run(steps: readonly Step[]): Promise<void> {
    this.#repo = repositoryAt(join(this.#world.roots.work, `repo ${++this.#count}`))
    this.#repo.write('a.txt', 'a\n')
    this.#repo.write('src/b.txt', 'b\n')
    this.#repo.write('.gitignore', '*.log\nbuild/\n')
    this.#part = repositoryAt(`${this.#repo.path}.part`)
    this.#repo.git('submodule', '--quiet', 'add', this.#part.path, 'part')
    this.#repo.commit('all')
    git(this.#world.roots.work, 'clone', '--quiet', '--bare', this.#repo.path, this.#origin)
    this.#repo.git('remote', 'add', 'origin', this.#origin)
    this.#known = new Map()
    for (const [index, step] of steps.entries()) {
      try {
        await this.#take(step)
      } catch (failure) {
        const why = failure instanceof Error ? failure.message : String(failure)
        throw new Error(`after step ${index + 1}, ${JSON.stringify(step)}:\n${why}`, { cause: failure })
      }
    }
    await this.#clear()
  }

  get #origin(): string {
    return `${this.#repo.path}.origin`
  }

  async end(): Promise<void> {
    await this.#world.end(true)
  }
  tail(): string {
    return `${this.#world.log.join('')}${logOf(this.#world)}`.slice(-6_000)
  }

  async #take(step: Step): Promise<void> {
    switch (step.do) {
      case 'create':
      case 'stop':
      case 'remove':
      case 'remove tree':
      case 'sweep':
        return await this.#manage(step)
      case 'kill':
        return await this.#kill(step.during, step.afterMs)
      default:
        this.#use(step)
    }
  }

  #look(): Snapshot {
    return look(this.#repo.path, this.#known)
  }

  /** The managed trees that are there, in an order that does not depend on names made by chance. */
  #trees(): TreeState[] {
    return [...this.#look().trees.values()].filter((it) => it.entry !== '').sort((a, b) => (a.entry < b.entry ? -1 : 1))
  }

  async #call(method: string, params: unknown = null): Promise<Answer> {
    return await (await this.#world.wire()).call(method, params, { deadlineMs: CALL_MS })
  }

  async #sessions(): Promise<Sessions[]> {
    const all = (await this.#call('session.list')) as Answer[]
    return all
      .filter((it) => it.repo === this.#repo.path)
      .map((info) => ({ info, ended: ['stopped', 'done', 'failed'].includes(info.state as string) }))
      .sort((a, b) => (a.info.id < b.info.id ? -1 : 1))
  }

  async #manage(step: ManagerStep): Promise<void> {
    if (step.do === 'sweep' && step.aged) await this.#restart()
    const before = this.#look()
    const { terms, refused, answer } = await this.#ask(step, before)
    const after = this.#look()
    const problems = judge(this.#repo.path, before, after, terms)
    const lost = [...before.trees.keys()].filter((it) => !after.trees.has(it)).length
    if (refused !== undefined && (lost > 0 || after.trees.size !== before.trees.size))
      problems.push(`it was refused (${refused}) and trees changed`)
    if (answer !== undefined) problems.push(...figures(step, answer, lost))
    problems.push(...(await this.#disagreements(after)))
    if (problems.length > 0) throw new Error(problems.join('\n'))
  }

  /** Does what is asked for. A refusal is an answer when it is one of those that can be expected. */
  async #ask(step: ManagerStep, before: Snapshot): Promise<{ terms: Terms; refused?: string; answer?: Answer }> {
    const wish = await this.#wish(step, before)
    if (wish === undefined) return { terms: { may: NONE, clean: NONE } }
    const { method, params, terms } = wish
    try {
      return { terms, answer: await this.#call(method, params) }
    } catch (failure) {
      if (!(failure instanceof WireError) || !REFUSALS.has(failure.code)) throw failure
      return { terms: { may: NONE, clean: NONE }, refused: failure.message }
    }
  }

  async #wish(
    step: ManagerStep,
    before: Snapshot,
  ): Promise<{ method: string; params: unknown; terms: Terms } | undefined> {
    const sessions = await this.#sessions()
    switch (step.do) {
      case 'create': {
        if (sessions.length >= MAX_SESSIONS) return undefined
        const params = {
          agent: step.brief ? 'brief' : 'long',
          cols: 80,
          rows: 24,
          repo: this.#repo.path,
          branch: step.branch,
          ...(step.reuse ? { reuse_branch: true } : {}),
        }
        return { method: 'session.new', params, terms: { may: NONE, clean: NONE } }
      }
      case 'stop':
      case 'remove': {
        const id = pick(sessions, step.at)?.info.id as string | undefined
        if (id === undefined) return undefined
        const may = step.do === 'remove' ? new Set([id]) : NONE
        return { method: `session.${step.do}`, params: id, terms: { may, clean: NONE } }
      }
      case 'remove tree': {
        const tree = pick(this.#trees(), step.at)
        if (tree === undefined) return undefined
        const owner = new Set([sessionOf(tree.entry)])
        const terms = step.force ? { may: owner, clean: NONE } : { may: NONE, clean: owner }
        return { method: 'worktree.remove', params: { path: tree.path, force: step.force }, terms }
      }
      case 'sweep': {
        const ended = new Set(sessions.filter((it) => it.ended).map((it) => it.info.id as string))
        // A tree whose session is gone is nobody's to sweep.
        const clean = new Set([...before.trees.keys()].map(sessionOf).filter((it) => ended.has(it)))
        return {
          method: 'session.retention.sweep',
          params: { dry_run: step.dry },
          terms: { may: NONE, clean: step.dry ? NONE : clean, unattended: true, ended },
        }
      }
    }
  }

  /** Another daemon on the same roots, for which every session is older than any policy. */
  async #restart(): Promise<void> {
    await this.#world.daemon.kill()
    await this.#begin()
  }

  async #begin(): Promise<void> {
    ageSessions(this.#world.roots)
    const owed = owedRemovals(this.#world.roots)
    await this.#world.start()
    let why: unknown
    await until(
      'the daemon has settled after its start',
      async () => {
        const all = (await this.#call('session.list')) as Answer[]
        why = all.filter(
          (it) =>
            owed.has(it.id as string) ||
            it.state === 'starting' ||
            !['live', 'terminal', 'lost'].includes(it.runtime?.state as string),
        )
        if ((why as Answer[]).length > 0) return false
        why = await this.#disagreements(this.#look())
        return (why as string[]).length === 0
      },
      { deadlineMs: SETTLED_MS, pollMs: 50, show: () => why },
    )
  }

  async #kill(during: ManagerStep | null, afterMs: number): Promise<void> {
    const before = this.#look()
    const sessions = await this.#sessions()
    const wish = during === null ? undefined : await this.#wish(during, before)
    let ended = false
    const call =
      wish === undefined
        ? Promise.resolve()
        : this.#call(wish.method, wish.params).then(
            () => undefined,
            () => undefined,
          )
    void call.then(() => (ended = true))
    const end = performance.now() + afterMs
    while (wish !== undefined && !ended && performance.now() < end) await pause(5)
    await this.#world.daemon.kill()
    await call
    await this.#begin()
    const terms: Terms = wish?.terms ?? { may: NONE, clean: NONE }
    const problems = judge(this.#repo.path, before, this.#look(), terms)
    const kept = new Set((await this.#sessions()).map((it) => it.info.id as string))
    const asked = new Set([...terms.may, ...terms.clean, ...(terms.ended ?? [])])
    for (const { info } of sessions)
      if (!kept.has(info.id) && !asked.has(info.id) && wish?.params !== info.id)
        problems.push(`session ${String(info.id)} is gone, and nobody asked for it`)
    if (problems.length > 0) throw new Error(problems.join('\n'))
  }

  /** Records, git's list and folders, compared. */
  async #disagreements(now: Snapshot): Promise<string[]> {
    const problems: string[] = []
    const entries = ((await this.#call('worktree.list')) as Answer[]).filter((it) => it.repo === this.#repo.path)
    const sessions = new Map((await this.#sessions()).map((it) => [it.info.id as string, it.info]))
    const byPath = new Map([...now.trees.values()].map((it) => [it.path, it]))
    const absent = new Set([...now.absent.values()].map((it) => it.path))
    for (const it of entries) {
      const id = it.session_id as string
      if (it.state === 'present' ? !byPath.has(it.path) : it.state !== 'absent' || existsSync(it.path))
        problems.push(`worktree.list tells ${String(it.path)} as ${String(it.state)}: ${String(it.problem)}`)
      const branch = byPath.get(it.path)?.ref?.slice('refs/heads/'.length)
      if (it.state === 'present' && it.branch !== branch)
        problems.push(`worktree.list tells branch ${String(it.branch)} of ${String(it.path)}, git ${String(branch)}`)
      if ((it.session_state === undefined) === sessions.has(id))
        problems.push(`the owner of ${String(it.path)} is not ${id}`)
    }
    const listed = new Set(entries.map((it) => it.path as string))
    for (const { entry, path } of now.trees.values())
      if (entry !== '' && !listed.has(path)) problems.push(`${path} is a worktree that no record knows`)
    for (const path of absent) if (!listed.has(path)) problems.push(`git knows ${path}, which no record knows`)
    const folder = join(this.#world.roots.data, 'pohunek/worktrees')
    for (const name of existsSync(folder) ? readdirSync(folder) : []) {
      const path = join(folder, name)
      const isOurs = name.includes(`-repo-${this.#count}-`)
      if (isOurs && !byPath.has(path) && !absent.has(path)) problems.push(`the folder ${path} is no worktree`)
    }
    return problems
  }

  /** Takes the run down through the product: nothing may refuse to go, and nothing may be left. */
  async #clear(): Promise<void> {
    const admins = join(this.#repo.path, '.git/worktrees')
    for (const it of existsSync(admins) ? readdirSync(admins) : []) {
      rmSync(join(admins, it, 'locked'), { force: true })
      this.#settlePart(partOf(join(admins, it)))
    }
    for (const { path } of this.#trees()) if (hasPart(path)) rmSync(join(path, 'part'), { recursive: true })
    await until(
      'every session is removed',
      async () => {
        for (const it of await this.#sessions()) await this.#call('session.remove', it.info.id)
        return true
      },
      { deadlineMs: SETTLED_MS, pollMs: 200 },
    )
    const entries = ((await this.#call('worktree.list')) as Answer[]).filter((it) => it.repo === this.#repo.path)
    for (const it of entries) await this.#call('worktree.remove', { path: it.path, force: true })
    const now = this.#look()
    const left = [...now.trees.keys(), ...now.absent.keys()].filter((it) => it !== '')
    const problems = [...left.map((it) => `${it} is left`), ...(await this.#disagreements(now))]
    if (problems.length > 0) throw new Error(`at the end, after all was removed:\n${problems.join('\n')}`)
    for (const it of [this.#repo.path, this.#part.path, this.#origin]) rmSync(it, { recursive: true, force: true })
  }

  /** Nothing of a submodule keeps its tree any more. */
  #settlePart(part: string): void {
    if (!existsSync(part)) return
    const inPart = (...args: string[]): string => git(part, '--git-dir=.', '--work-tree=.', ...args)
    inPart('push', '--quiet', 'origin', `HEAD:refs/heads/end-${++this.#serial}`)
  }

  #use(step: UserStep): void {
    if (step.do === 'commit on main') {
      this.#repo.write('a.txt', `${this.#next()}\n`)
      this.#repo.commit('on main')
      return
    }
    const tree = pick(this.#trees(), step.at)
    if (tree === undefined) return
    const { path } = tree
    /** People's own mistakes are git's to refuse. */
    const attempt = (...args: string[]): void => {
      try {
        git(path, ...args)
      } catch {
        // as it was, or half way: both are states a tree can be in
      }
    }
    switch (step.do) {
      case 'edit':
        return put(path, 'a.txt', `${this.#next()}\n`)
      case 'stage':
        put(path, 'src/b.txt', `${this.#next()}\n`)
        attempt('add', '--', 'src/b.txt')
        // So that what is staged is nowhere else.
        return put(path, 'src/b.txt', `${this.#next()}\n`)
      case 'delete':
        return rmSync(join(path, 'src/b.txt'), { force: true })
      case 'ignored':
        put(path, 'build/out', `${this.#next()}\n`)
        return put(path, 'x.log', `${this.#next()}\n`)
      case 'new':
        return put(path, step.name, `${this.#next()}\n`)
      case 'commit':
        put(path, 'c.txt', `${this.#next()}\n`)
        attempt('add', '--all')
        return attempt('commit', '--quiet', '--allow-empty', '-m', 'work')
      case 'stash':
        return attempt('stash', 'push', '--include-untracked', '--quiet')
      case 'detach':
        return attempt('checkout', '--quiet', '--detach')
      case 'branch':
        return attempt('checkout', '--quiet', '-b', step.name)
      case 'rename branch':
        return attempt('branch', '-m', step.name)
      case 'merge':
        return attempt('merge', '--quiet', '--no-edit', 'main')
      case 'rebase':
        return attempt('rebase', '--quiet', 'main')
      case 'lock':
        return attempt('worktree', 'lock', path)
      case 'unlock':
        return attempt('worktree', 'unlock', path)
      case 'move':
        // Git moves no tree with a submodule in it, and none that is locked.
        return attempt('worktree', 'move', path, join(this.#world.roots.work, `moved-${this.#count}-${++this.#moves}`))
      case 'drop':
        attempt('checkout', '--quiet', '--detach')
        put(path, 'd.txt', `${this.#next()}\n`)
        attempt('add', '--', 'd.txt')
        attempt('commit', '--quiet', '-m', 'dropped')
        return attempt('checkout', '--quiet', '-')
      case 'reset':
        return attempt('reset', '--quiet', '--hard', 'HEAD~1')
      case 'amend':
        return attempt('commit', '--quiet', '--allow-empty', '--amend', '-m', this.#next())
      case 'push':
        return attempt('push', '--quiet', 'origin', `HEAD:refs/heads/pushed-${++this.#serial}`)
      case 'init part':
        return attempt('submodule', '--quiet', 'update', '--init')
      case 'update part':
        return attempt('submodule', '--quiet', 'update')
      case 'edit part':
        return hasPart(path) ? put(path, 'part/a.txt', `${this.#next()}\n`) : undefined
      case 'commit part':
        if (!hasPart(path)) return
        put(path, 'part/a.txt', `${this.#next()}\n`)
        attempt('-C', 'part', 'add', '--all')
        return attempt('-C', 'part', 'commit', '--quiet', '-m', 'in the part')
      case 'push part':
        return hasPart(path)
          ? attempt('-C', 'part', 'push', '--quiet', 'origin', `HEAD:refs/heads/pushed-${++this.#serial}`)
          : undefined
      case 'vanish':
        return rmSync(path, { recursive: true, force: true })
      case 'private ref': {
        const commit = git(path, 'commit-tree', '-p', 'HEAD', '-m', `only here ${this.#next()}`, 'HEAD^{tree}')
        return attempt('update-ref', 'refs/worktree/kept', commit)
      }
    }
  }

  /** Content that is in no other place. */
  #next(): string {
    return `content ${this.#count}.${++this.#serial}`
  }
}

const hasPart = (path: string): boolean => existsSync(join(path, 'part/.git'))

const pick = <T>(all: readonly T[], at: number): T | undefined => all[at % Math.max(1, all.length)]

function put(root: string, file: string, text: string): void {
  try {
    mkdirSync(dirname(join(root, file)), { recursive: true })
    writeFileSync(join(root, file), text)
  } catch (failure) {
    // A folder where the file was, or the other way round.
    if (!['EISDIR', 'ENOTDIR', 'EEXIST'].includes((failure as NodeJS.ErrnoException).code ?? '')) throw failure
  }
}

/** What the manager says it did, against what is gone. */
function figures(step: ManagerStep, answer: Answer, lost: number): string[] {
  if (step.do === 'remove') {
    const { worktrees_removed: removed, worktrees_failed: failed } = answer
    return removed + failed <= 1 && lost <= removed ? [] : [`${lost} trees went, it says ${JSON.stringify(answer)}`]
  }
  if (step.do !== 'sweep') return []
  const told = (answer.sessions as Answer[]).filter((it) => it.removed === true).length
  const { dry_run, eligible, removed, worktrees_cleaned: cleaned, worktrees_failed: failed, failed: refused } = answer
  const problems = [
    ...(dry_run === step.dry && (!step.dry || removed === 0) ? [] : ['a dry run removed something']),
    ...(told === removed ? [] : [`${told} sessions are told as removed`]),
    ...(lost <= cleaned ? [] : [`${lost} trees went`]),
    ...(failed === 0 && removed + refused === (step.dry ? 0 : eligible) ? [] : ['a removal failed']),
  ]
  return problems.map((it) => `${it}: ${JSON.stringify(answer)}`)
}
