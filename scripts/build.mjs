// Builds the three programs and the client library into dist/. Each program is one minified CommonJS bundle beside a
// V8 code cache that its tiny loader uses (measured: a bundle alone starts no sooner than node_modules, the cache does).
import { build } from 'esbuild'
import { execFileSync } from 'node:child_process'
import { copyFileSync, existsSync, mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { trainCli } from './train-cli.mjs'
import { plainWidthTable } from './width-table.mjs'

const root = dirname(dirname(fileURLToPath(import.meta.url)))
const dist = join(root, process.env.POHUNEK_DIST ?? 'dist')
const { version } = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8'))
mkdirSync(dist, { recursive: true })

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
    // Crash points exist in builds for tests only (platform/crash-points.ts).
    POHUNEK_CRASH_POINTS: String(process.env.POHUNEK_CRASH_POINTS === 'true'),
    'import.meta.url': 'undefined',
  },
  external: ['koffi', '*.node'],
  logLevel: 'warning',
  plugins: [plainWidthTable],
}

/** Programs by bundle name; `cache` ones start through a code cache. */
const programs = [
  { entry: 'main/pohunekd.ts', name: 'pohunekd', cache: true },
  { entry: 'main/worker.ts', name: 'pohunek-sessiond', cache: true },
  { entry: 'main/cli.ts', name: 'pohunek', cache: true, train: trainCli },
  { entry: 'main/cli-full.ts', name: 'pohunek-full', cache: true },
].filter((it) => existsSync(join(root, it.entry)))

await Promise.all(
  programs.map((it) =>
    build({ ...common, entryPoints: [it.entry], outfile: join(dist, `${it.name}${it.cache ? '.bundle' : ''}.cjs`) }),
  ),
)
for (const it of programs.filter((p) => p.cache)) {
  copyFileSync(join(root, 'scripts/loader.cjs'), join(dist, `${it.name}.cjs`))
  // The cache is made by a process of its own that loads the bundle and leaves before it runs, or runs (see loader.cjs).
  rmSync(join(dist, `${it.name}.cache`), { force: true })
  if (it.train !== undefined) await it.train(join(dist, `${it.name}.cjs`))
  else
    execFileSync(process.execPath, [join(dist, `${it.name}.cjs`)], {
      env: { PATH: process.env.PATH ?? '', HOME: process.env.HOME ?? '/', POHUNEK_MAKE_CACHE: '1' },
      stdio: 'inherit',
    })
}
if (existsSync(join(root, 'client/index.ts'))) {
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
