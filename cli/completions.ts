/** Completion scripts for bash, zsh and fish, generated from the command data. */
import type { Command } from '../protocol/command.ts'
import type { Cli } from './cli.ts'
import { faults } from './errors.ts'

interface Node {
  /** Words that lead here, e.g. ['session', 'stop']. */
  readonly words: readonly string[]
  readonly next: readonly { readonly word: string; readonly about: string }[]
  readonly flags: readonly { readonly name: string; readonly about: string }[]
  readonly session: boolean
  readonly choices: readonly string[]
}

const GLOBAL_FLAGS = [
  { name: '--host', about: 'the host' },
  { name: '--no-start', about: 'do not start a daemon' },
  { name: '--help', about: 'help' },
]

/** Pure. Every place in the command tree with what may come next. */
export function completionTree(commands: readonly Command[]): Node[] {
  const shown = commands.filter((it) => !it.hidden)
  const groups = new Map<string, readonly string[]>([['', []]])
  for (const { path } of shown) {
    for (let length = 1; length < path.length; length++)
      groups.set(path.slice(0, length).join(' '), path.slice(0, length))
  }
  const inner = [...groups.values()].map((words): Node => {
    const below = shown.filter((it) => it.path.length > words.length && words.every((word, at) => it.path[at] === word))
    const next = new Map(
      below.map((it) => [
        it.path[words.length] as string,
        it.path.length === words.length + 1 ? it.about : `${it.path[words.length]} commands`,
      ]),
    )
    return {
      words,
      next: [...next].map(([word, about]) => ({ word, about })),
      flags: GLOBAL_FLAGS,
      session: false,
      choices: [],
    }
  })
  const leaves = shown.map((it): Node => ({
    words: it.path,
    next: [],
    flags: [
      ...it.flags.filter((flag) => !flag.hidden).map((flag) => ({ name: `--${flag.name}`, about: flag.about })),
      ...GLOBAL_FLAGS,
    ],
    session: it.arguments.some((argument) => argument.session),
    choices: it.arguments.flatMap((argument) => argument.choices ?? []),
  }))
  return [...inner, ...leaves]
}

/** Lists what is there now and never starts a daemon for it. */
const LIVE = 'POHUNEK_NO_START=1 pohunek session list -q 2>/dev/null'
const key = (node: Node): string => node.words.map((word) => ` ${word}`).join('')
const quote = (text: string): string => `'${text.replaceAll("'", String.raw`'\''`)}'`
const plain = (node: Node): string[] => [...node.next.map((it) => it.word), ...node.choices]

function steps(tree: readonly Node[]): string {
  return tree
    .filter((it) => it.words.length > 0)
    .map((it) => quote(key(it)))
    .join('|')
}

function bash(tree: readonly Node[], live: boolean): string {
  const cases = tree.map((it) => {
    const candidates = `${plain(it).join(' ')}${it.session && live ? ` $(${LIVE})` : ''}`
    return `    ${quote(key(it))}) plain="${candidates}"; flags="${it.flags.map((flag) => flag.name).join(' ')}" ;;`
  })
  return `# bash completion of pohunek: source <(pohunek completions bash)
_pohunek() {
  local cur="\${COMP_WORDS[COMP_CWORD]}" at="" plain="" flags="" i
  COMPREPLY=()
  for ((i = 1; i < COMP_CWORD; i++)); do
    case "$at \${COMP_WORDS[i]}" in
      ${steps(tree)}) at="$at \${COMP_WORDS[i]}" ;;
    esac
  done
  case "$at" in
${cases.join('\n')}
  esac
  if [[ $cur == -* ]]; then COMPREPLY=($(compgen -W "$flags" -- "$cur")); else COMPREPLY=($(compgen -W "$plain" -- "$cur")); fi
}
complete -F _pohunek pohunek
`
}

function zsh(tree: readonly Node[], live: boolean): string {
  const cases = tree.map((it) => {
    const words = [...plain(it), ...it.flags.map((flag) => flag.name)].map(quote).join(' ')
    const sessions = it.session && live ? `; compadd -- \${(f)"$(${LIVE})"}` : ''
    return `    ${quote(key(it))}) compadd -- ${words}${sessions} ;;`
  })
  return `#compdef pohunek
# zsh completion of pohunek: source <(pohunek completions zsh)
_pohunek() {
  local at="" i
  for ((i = 2; i < CURRENT; i++)); do
    case "$at \${words[i]}" in
      ${steps(tree)}) at="$at \${words[i]}" ;;
    esac
  done
  case "$at" in
${cases.join('\n')}
  esac
}
if [ "$funcstack[1]" = "_pohunek" ]; then _pohunek "$@"; else compdef _pohunek pohunek; fi
`
}

function fish(tree: readonly Node[], live: boolean): string {
  const rows = tree.flatMap((it) => {
    const here = it.words.join(' ')
    const exact = `-n ${quote(`__pohunek_at exact ${here}`)}`
    const below = `-n ${quote(`__pohunek_at below ${here}`)}`
    return [
      ...it.next.map((step) => `complete -c pohunek ${exact} -a ${quote(step.word)} -d ${quote(step.about)}`),
      ...it.choices.map((choice) => `complete -c pohunek ${below} -a ${quote(choice)}`),
      ...(it.words.length > 0 && it.next.length === 0
        ? it.flags.map((flag) => `complete -c pohunek ${below} -l ${flag.name.slice(2)} -d ${quote(flag.about)}`)
        : []),
      ...(it.session && live ? [`complete -c pohunek ${below} -a ${quote(`(env ${LIVE})`)} -d session`] : []),
    ]
  })
  return `# fish completion of pohunek: pohunek completions fish | source
function __pohunek_at
  set -l how $argv[1]
  set -l want $argv[2..-1]
  set -l tokens (commandline -opc)
  set -l have (string match -v -- '-*' $tokens[2..-1])
  if test $how = exact
    test (count $have) -eq (count $want); or return 1
  else
    test (count $have) -ge (count $want); or return 1
  end
  for i in (seq (count $want))
    test "$have[$i]" = "$want[$i]"; or return 1
  end
  return 0
end
complete -c pohunek -f
${rows.join('\n')}
`
}

const SHELLS: Readonly<Record<string, (tree: readonly Node[], live: boolean) => string>> = { bash, zsh, fish }

export const completionsCommand = (_cli: Cli, commands: readonly Command[]): Command => ({
  path: ['completions'],
  about: 'print a completion script',
  arguments: [{ name: 'shell', about: 'the shell', choices: Object.keys(SHELLS) }],
  flags: [{ name: 'dynamic', about: 'also complete the ids of the sessions there are' }],
  json: false,
  run(_context, input) {
    const script = SHELLS[input.argument('shell') ?? '']
    if (script === undefined) throw faults.cli_usage({ problem: 'no such shell' })
    return Promise.resolve({ ok: null, human: [{ verbatim: script(completionTree(commands), input.has('dynamic')) }] })
  },
})
