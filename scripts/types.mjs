// Emits the declarations of the client library into dist/types, as package.json's exports name them. Only where TypeScript
// is installed: a package made without it has the library and no types. The checker runs elsewhere (npm run check).
import { existsSync, readFileSync, readdirSync, rmSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'

const root = dirname(dirname(fileURLToPath(import.meta.url)))
const out = join(root, process.env.POHUNEK_DIST ?? 'dist', 'types')
let ts
try {
  ts = (await import('typescript')).default
} catch {
  console.warn('types: TypeScript is not installed; dist/types is not made')
  process.exit(0)
}

const { config, error } = ts.readConfigFile(join(root, 'tsconfig.json'), (path) => readFileSync(path, 'utf8'))
if (error) throw new Error(ts.flattenDiagnosticMessageText(error.messageText, '\n'))
const { options } = ts.convertCompilerOptionsFromJson(config.compilerOptions, root)
const program = ts.createProgram([join(root, 'client/index.ts')], {
  ...options,
  noEmit: false,
  noCheck: true,
  declaration: true,
  emitDeclarationOnly: true,
  allowImportingTsExtensions: true,
  rootDir: root,
  outDir: out,
})
rmSync(out, { recursive: true, force: true })
const { diagnostics } = program.emit()
if (diagnostics.length > 0)
  throw new Error(
    ts.formatDiagnostics(diagnostics, {
      getCanonicalFileName: (it) => it,
      getCurrentDirectory: () => root,
      getNewLine: () => '\n',
    }),
  )

// Declarations name the sources they came from; in the package only their own kind is beside them.
for (const entry of readdirSync(out, { recursive: true, withFileTypes: true })) {
  if (!entry.isFile()) continue
  const path = join(entry.parentPath ?? entry.path, entry.name)
  const text = readFileSync(path, 'utf8')
  writeFileSync(path, text.replace(/((?:from |import\()['"]\.{1,2}\/[^'"]*)\.ts(['"])/g, '$1.js$2'))
}
if (!existsSync(join(out, 'client/index.d.ts'))) throw new Error('types: client/index.d.ts was not made')
