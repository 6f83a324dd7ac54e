/** --json of every command: one document on standard output and nothing else, errors too, and the exit code that belongs to it. */
import { expect, test } from 'vitest'
import { pluginCommands } from '../../main/plugin-commands.ts'
import type { Command } from '../../protocol/command.ts'
import { world, type World } from '../harness/world.ts'

const all = pluginCommands.filter((it) => it.json)

/** Flags and arguments without which a command is a usage error. */
const NEEDS: Readonly<Record<string, readonly string[]>> = {
  'session input': ['a text'],
  'session resize': ['--cols', '80', '--rows', '24'],
  'session metadata': ['--set', 'a=b'],
  'session rename': ['a name'],
  'session policy set': ['--enabled'],
  'session retention sweep': ['--dry-run'],
  'notifications policy set': ['--kind', 'error', '--enabled'],
  'notifications retention prune': ['--dry-run'],
  'prompt link': ['--provider', 'github_pr'],
}

async function both(w: World, args: readonly string[], stdin = '') {
  const { code, stdout, stderr } = await w.cli([...args, '--json'], { stdin })
  return {
    args: args.join(' '),
    code,
    stderr,
    document: JSON.parse(stdout) as { ok?: unknown; err?: { code: string } },
  }
}

const words = (it: Command): string[] => [
  ...it.path,
  ...it.arguments.filter((one) => one.optional !== true).map(() => 'x'),
]

async function eachOf<T>(run: (command: Command) => Promise<T>): Promise<T[]> {
  const answers: T[] = []
  for (const command of all) answers.push(await run(command))
  return answers
}

test('a usage error is a document as well, with exit code 2', async () => {
  const w = await world({ daemon: false })
  for (const it of await eachOf((command) => both(w, [...words(command), '--bogus'])))
    expect([it.args, it.code, Object.keys(it.document), it.document.err?.code]).toEqual([
      it.args,
      2,
      ['cli_version', 'protocol', 'err'],
      'cli_usage',
    ])
}, 60_000)

test('without a daemon each is an error of one document, exit code 1 and nothing on stderr', async () => {
  const w = await world({ daemon: false })
  const answers = await eachOf((command) => both(w, [...words(command), ...(NEEDS[command.path.join(' ')] ?? [])]))
  for (const { args, code, stderr, document } of answers) {
    const { err } = document
    // A work item is read before anything else.
    const wanted = args.startsWith('prompt link')
      ? 'prompt_render_failed'
      : args.includes('host inspect')
        ? 'host_unknown'
        : 'daemon_unreachable'
    expect([args, code, err?.code, stderr]).toEqual([args, 1, wanted, ''])
  }
}, 60_000)

test('lists are arrays, and what the CLI says beside them stays out of the document', async () => {
  const w = await world()
  for (const args of [
    ['session', 'list'],
    ['notifications', 'list'],
    ['project', 'list'],
    ['worktree', 'list'],
  ]) {
    const it = await both(w, args)
    expect([it.code, it.document.ok, it.stderr]).toEqual([0, [], ''])
  }
  for (const args of [['doctor'], ['daemon', 'status'], ['health'], ['capabilities'], ['host', 'inspect', 'local']])
    expect(Object.keys((await both(w, args)).document)).toEqual(['cli_version', 'protocol', 'ok'])
})
