// npm run check: format, types, lint, imports, dead code, generated files. Stops at nothing, reports everything.
import { spawnSync } from 'node:child_process'
import { dirname } from 'node:path'
import { fileURLToPath } from 'node:url'

const root = dirname(dirname(fileURLToPath(import.meta.url)))
const steps = [
  ['format', 'prettier', ['--check', '.', '--log-level', 'warn']],
  ['types', 'tsc', ['-p', '.']],
  ['types: protocol has no node', 'tsc', ['-p', 'protocol', '--noEmit']],
  ['lint', 'eslint', ['--max-warnings', '0', '.']],
  ['imports', 'depcruise', ['protocol', 'kernel', 'platform', 'plugins', 'worker', 'cli', 'client', 'main']],
  ['dead code', 'knip', ['--no-progress']],
  ['generated files', process.execPath, ['scripts/protocol-doc.mjs', '--check']],
]
const failed = []
for (const [name, command, args] of steps) {
  const started = Date.now()
  const program = command === process.execPath ? command : `node_modules/.bin/${command}`
  const { status } = spawnSync(program, args, { cwd: root, stdio: 'inherit' })
  console.log(`${status === 0 ? 'ok  ' : 'FAIL'} ${name} (${((Date.now() - started) / 1000).toFixed(1)} s)`)
  if (status !== 0) failed.push(name)
}
if (failed.length > 0) {
  console.error(`check failed: ${failed.join(', ')}`)
  process.exit(1)
}
