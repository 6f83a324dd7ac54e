// W1, W2: sessions in worktrees of their own, against git alone. Both sides write the same files: on a disk that others
// write to as well, its queue is what is measured; TMPDIR on a file system in memory shows the work itself.
import { execFile, execFileSync } from 'node:child_process'
import { mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as pause } from 'node:timers/promises'
import { promisify } from 'node:util'
import { Signal, reporting } from './programs.mjs'
import { alternate, now } from './stats.mjs'

const run = promisify(execFile)
const SIZE = { cols: 80, rows: 24 }
const FILES_PER_FOLDER = 100
/** What a create leaves behind, a spare worker that is started and pages that are written, must not meet the next one. */
const SETTLE_MS = 1_000
const LIMIT_MS = 300_000
const AT_ONCE = 16

/** A repository of one commit, at `path`. */
function repository(path, files, env) {
  const quiet = ['-c', 'gc.auto=0', '-c', 'user.name=bench', '-c', 'user.email=bench@localhost']
  const git = (...args) =>
    execFileSync('git', [...quiet, ...args], { cwd: path, env, stdio: ['ignore', 'ignore', 'pipe'] })
  mkdirSync(path)
  git('init', '--quiet', '--initial-branch=main')
  for (let at = 0; at < files; at++) {
    const folder = join(path, `folder-${Math.floor(at / FILES_PER_FOLDER)}`)
    if (at % FILES_PER_FOLDER === 0) mkdirSync(folder)
    writeFileSync(join(folder, `file-${at}`), `content of ${at}\n`.repeat(20))
  }
  git('add', '--all')
  git('commit', '--quiet', '--message', 'all')
  // A repository that people work in is packed.
  git('repack', '-a', '-d', '-q')
}

export async function trees(bench) {
  const { root } = bench.base()
  const product = await bench.product()
  if (product === undefined) return
  const signal = new Signal(`${root.path}/tree.run`)
  root.profile('in-tree', reporting(root.path, 'in-tree', signal.path))
  const env = { ...root.env, GIT_CONFIG_NOSYSTEM: '1', GIT_CONFIG_GLOBAL: '/dev/null' }
  const git = (repo, ...args) => run('git', args, { cwd: repo, env })
  let count = 0
  const settle = async () => {
    execFileSync('sync')
    await pause(SETTLE_MS)
  }
  /** Until the program runs; answers the session and the time it took. */
  const create = async (wire, params) => {
    const running = signal.next(LIMIT_MS)
    const began = now()
    const [at, made] = await Promise.all([running, wire.call('session.new', { agent: 'in-tree', ...SIZE, ...params })])
    return { id: made.id, ms: at - began }
  }
  const remove = (id) => product.wire.call('session.remove', id)
  const add = async (repo) => {
    const path = join(root.path, `bare-${++count}`)
    await git(repo, 'worktree', 'add', '--quiet', '-b', `bare-${count}`, path)
    return path
  }
  const drop = (repo, path) => git(repo, 'worktree', 'remove', '--force', path)

  if (bench.wants('W1')) {
    const repo = join(root.path, 'large')
    repository(repo, 50_000, env)
    const ours = async () => {
      const { id, ms } = await create(product.wire, { repo, branch: `ours-${++count}` })
      await remove(id)
      await settle()
      return ms
    }
    const theirs = async () => {
      const began = now()
      const path = await add(repo)
      const added = now() - began
      const { id, ms } = await create(product.wire, { cwd: path })
      await remove(id)
      await drop(repo, path)
      await settle()
      return added + ms
    }
    await settle()
    bench.report('W1', await alternate(bench.rounds(5), { ours, peer: theirs }))
  }

  if (bench.wants('W2')) {
    const repo = join(root.path, 'usual')
    repository(repo, 5_000, env)
    const wires = await Promise.all(Array.from({ length: AT_ONCE }, () => root.connect()))
    const ours = async () => {
      const began = now()
      const made = await Promise.allSettled(wires.map((wire) => create(wire, { repo, branch: `many-${++count}` })))
      const ms = now() - began
      for (const it of made) if (it.status === 'fulfilled') await remove(it.value.id)
      const failed = made.filter((it) => it.status === 'rejected')
      if (failed.length > 0) throw new Error(`${failed.length} of ${AT_ONCE} failed: ${failed[0].reason.message}`)
      await settle()
      return ms
    }
    const theirs = async () => {
      const began = now()
      const paths = []
      for (let at = 0; at < AT_ONCE; at++) paths.push(await add(repo))
      const ms = now() - began
      for (const path of paths) await drop(repo, path)
      await settle()
      return ms
    }
    await settle()
    bench.report('W2', await alternate(bench.rounds(5), { ours, peer: theirs }))
    for (const wire of wires) wire.close()
  }
  signal.close()
}
