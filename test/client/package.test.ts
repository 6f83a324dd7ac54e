/** What a program gets that installs the package: the library, and types it can be checked against. */
import { execFileSync } from 'node:child_process'
import { mkdirSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { join, normalize } from 'node:path'
import ts from 'typescript'
import { beforeAll, expect, onTestFinished, test } from 'vitest'
import { REPOSITORY } from '../harness/roots.ts'

const manifest = JSON.parse(readFileSync(join(REPOSITORY, 'package.json'), 'utf8')) as {
  exports: Record<string, Record<string, string>>
  bin: Record<string, string>
  scripts: Record<string, string>
}

beforeAll(() => {
  execFileSync(process.execPath, [join(REPOSITORY, 'scripts/types.mjs')], { stdio: 'inherit', timeout: 60_000 })
})

test('the package holds every file its manifest names, and is made with them', () => {
  const packed = execFileSync('npm', ['pack', '--dry-run', '--json', '--ignore-scripts'], {
    cwd: REPOSITORY,
    encoding: 'utf8',
    stdio: ['ignore', 'pipe', 'ignore'],
    timeout: 60_000,
  })
  const [{ files }] = JSON.parse(packed) as [{ files: { path: string }[] }]
  const paths = files.map((it) => it.path)
  const named = [...Object.values(manifest.exports).flatMap((it) => Object.values(it)), ...Object.values(manifest.bin)]
  expect(named.length).toBeGreaterThan(4)
  for (const path of named) expect(paths).toContain(normalize(path))
  expect(manifest.scripts.prepare).toContain('scripts/types.mjs')
}, 60_000)

test('a program in TypeScript is checked against the types of the package', () => {
  const base = mkdtempSync('/tmp/phk-')
  onTestFinished(() => rmSync(base, { recursive: true, force: true }))
  mkdirSync(join(base, 'node_modules/@types'), { recursive: true })
  symlinkSync(REPOSITORY, join(base, 'node_modules/pohunek'))
  symlinkSync(join(REPOSITORY, 'node_modules/@types/node'), join(base, 'node_modules/@types/node'))
  writeFileSync(join(base, 'package.json'), '{"type":"module"}')
  const file = join(base, 'use.ts')
  writeFileSync(
    file,
    `import { connect, ClientError, type Session } from 'pohunek'
const client = await connect({ start: true })
const made: Session = await client.call('session.new', { agent: 'shell', cols: 80, rows: 24 })
const names: (string | undefined)[] = (await client.listSessions()).map((it) => it.name)
for await (const bytes of client.followOutput(made.id)) process.stdout.write(bytes)
for await (const event of client.subscribe()) if (event.event === 'session_stopped') console.log(event.session.id)
export const code = (failure: unknown): string => (failure instanceof ClientError ? failure.code : String(names))
// @ts-expect-error a session has no such parameter
await client.call('session.new', { agent: 'shell', cols: 'wide', rows: 24 })
// @ts-expect-error no such method
await client.call('session.nonsense', null)
// @ts-expect-error an id is text
const wrong: number = made.id
`,
  )
  const program = ts.createProgram([file], {
    strict: true,
    noEmit: true,
    target: ts.ScriptTarget.ES2022,
    module: ts.ModuleKind.NodeNext,
    moduleResolution: ts.ModuleResolutionKind.NodeNext,
    types: ['node'],
    typeRoots: [join(base, 'node_modules/@types')],
    skipLibCheck: true,
  })
  const told = ts.getPreEmitDiagnostics(program).map((it) => ts.flattenDiagnosticMessageText(it.messageText, '\n'))
  expect(told).toEqual([])
}, 60_000)
