// Builds the three programs and the client library into dist/. Each program is one minified CommonJS bundle beside a
// V8 code cache that its tiny loader uses (measured: a bundle alone starts no sooner than node_modules, the cache does).
import { build } from 'esbuild'
import { execFileSync } from 'node:child_process'
import { copyFileSync, existsSync, mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { train } from './train.mjs'
import { plainWidthTable } from './width-table.mjs'

const root = dirname(dirname(fileURLToPath(import.meta.url)))
const dist = join(root, process.env.POHUNEK_DIST ?? 'dist')
const { version } = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8'))
mkdirSync(dist, { recursive: true })

// Builds for tests only: daemon and worker with the points of platform/crash-points.ts.
const crashPoints = process.env.POHUNEK_CRASH_POINTS === 'true'

/** The container can load modules by pattern, which no program of ours does: what finds files stays out. */
const withoutGlob = {
  name: 'without-glob',
  setup(build) {
    build.onResolve({ filter: /^fast-glob$/ }, () => ({ path: 'fast-glob', namespace: 'nothing' }))
    build.onLoad({ filter: /.*/, namespace: 'nothing' }, () => ({ contents: 'module.exports = {}' }))
  },
}

const common = {
  absWorkingDir: root,
  bundle: true,
  platform: 'node',
  target: 'node20.19',
  format: 'cjs',
  minify: true,
  keepNames: false,
  legalComments: 'none',
  define: {
    POHUNEK_VERSION: JSON.stringify(version),
    POHUNEK_CRASH_POINTS: String(crashPoints),
    'import.meta.url': 'undefined',
  },
  external: ['koffi', '*.node'],
  logLevel: 'warning',
  plugins: [plainWidthTable, withoutGlob],
}

/** Programs by bundle name; `cache` ones start through a code cache. */
const programs = [
  { entry: 'main/pohunekd.ts', name: 'pohunekd', cache: true },
  { entry: 'main/worker.ts', name: 'pohunek-sessiond', cache: true },
  { entry: 'main/cli.ts', name: 'pohunek', cache: true },
  { entry: 'main/cli-full.ts', name: 'pohunek-full', cache: true },
].filter((it) => existsSync(join(root, it.entry)) && (!crashPoints || /^pohunek(d|-sessiond)$/.test(it.name)))

await Promise.all(
  programs.map((it) =>
    build({ ...common, entryPoints: [it.entry], outfile: join(dist, `${it.name}${it.cache ? '.bundle' : ''}.cjs`) }),
  ),
)
const cached = programs.filter((it) => it.cache).map((it) => join(dist, it.name))
for (const name of cached) {
  copyFileSync(join(root, 'scripts/loader.cjs'), `${name}.cjs`)
  rmSync(`${name}.cache`, { force: true })
}
try {
  if (crashPoints) throw new Error('a build for tests is not trained')
  await train(dist)
} catch (failure) {
  // Somewhere without terminals or sockets: the second best is a cache of what loading alone compiles.
  if (!crashPoints) console.warn(`build: the code caches hold no more than the load: ${failure.message}`)
  for (const name of cached) {
    const env = { PATH: process.env.PATH ?? '', HOME: process.env.HOME ?? '/', POHUNEK_MAKE_CACHE: '1' }
    execFileSync(process.execPath, [`${name}.cjs`], { env, stdio: 'inherit' })
  }
}
if (!crashPoints && existsSync(join(root, 'client/index.ts'))) {
  await build({
    ...common,
    format: 'esm',
    minify: false,
    define: { POHUNEK_VERSION: JSON.stringify(version) },
    entryPoints: ['client/index.ts'],
    outfile: join(dist, 'client.mjs'),
    packages: 'external',
  })
}
writeFileSync(join(dist, 'version'), `${version}\n`)
