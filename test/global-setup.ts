/** Builds dist/ once per run, unless it is newer than every source or POHUNEK_SKIP_BUILD=1. */
import { execFileSync } from 'node:child_process'
import { existsSync, readdirSync, statSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'

const root = dirname(dirname(fileURLToPath(import.meta.url)))
const SOURCES = [
  'protocol',
  'kernel',
  'platform',
  'plugins',
  'worker',
  'cli',
  'client',
  'main',
  'scripts',
  'package.json',
  'package-lock.json',
]

/** Newest change below a path, directories included: a removed file changes its directory. */
function newestMs(path: string): number {
  if (!existsSync(path)) return 0
  const stat = statSync(path)
  if (!stat.isDirectory()) return stat.mtimeMs
  return Math.max(stat.mtimeMs, ...readdirSync(path).map((name) => newestMs(join(path, name))))
}

export default function setup(): void {
  if (process.env['POHUNEK_SKIP_BUILD'] === '1') return
  const built = join(root, 'dist/version')
  if (existsSync(built) && SOURCES.every((it) => newestMs(join(root, it)) < statSync(built).mtimeMs)) return
  execFileSync(process.execPath, [join(root, 'scripts/build.mjs')], { cwd: root, stdio: 'inherit' })
}
