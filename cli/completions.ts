/** Completion scripts for bash, zsh and fish, generated from the command data. */
import type { Command, Flag } from '../protocol/command.ts'
import { faults } from './errors.ts'
import { GLOBAL_FLAGS } from './parse.ts'

interface Choice {
  readonly name: string
  readonly about: string
  /** What its value can be; undefined when it takes none. */
  readonly value?: { readonly choices: readonly string[]; readonly directory: boolean }
}

interface Node {
  /** Words that lead here, e.g. ['session', 'stop']. */
  readonly words: readonly string[]
  readonly next: readonly Choice[]
  readonly flags: readonly Choice[]
  readonly session: boolean
  readonly choices: readonly string[]
}

const choiceOf = (flag: Flag): Choice => ({
  name: `--${flag.name}`,
  about: flag.about,
  ...(flag.value === undefined
    ? {}
    : { value: { choices: flag.choices ?? [], directory: flag.value === 'directory' } }),
})
const global = GLOBAL_FLAGS.map(choiceOf)

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
      below.map((it) => {
        const name = it.path[words.length] as string
        return [name, { name, about: it.path.length === words.length + 1 ? it.about : `${name} commands` }]
      }),
    )
    return { words, next: [...next.values()], flags: global, session: false, choices: [] }
  })
  const leaves = shown.map((it): Node => ({
    words: it.path,
    next: [],
    flags: [...it.flags.filter((flag) => !flag.hidden).map(choiceOf), ...global],
    session: it.arguments.some((argument) => argument.session),
    choices: it.arguments.flatMap((argument) => argument.choices ?? []),
  }))
  return [...inner, ...leaves]
}

/** Lists what is there now and never starts a daemon for it. */
const LIVE = 'POHUNEK_NO_START=1 pohunek session list -q 2>/dev/null'
const key = (node: Node): string => node.words.map((word) => ` ${word}`).join('')
const quote = (text: string): string => `'${text.replaceAll("'", String.raw`'\''`)}'`
const plain = (node: Node): string[] => [...node.next.map((it) => it.name), ...node.choices]

function steps(tree: readonly Node[]): string {
  return tree
    .filter((it) => it.words.length > 0)
    .map((it) => quote(key(it)))
    .join('|')
}

/** One line of a case for each flag with a value; `directories` and `choices` say what the shell does then. */
function valueCases(
  tree: readonly Node[],
  directories: string,
  choices: (values: readonly string[]) => string,
): string[] {
  return tree.flatMap((node) =>
    node.flags
      .filter((it) => it.value !== undefined)
      .map(({ name, value }) => {
        const act = value?.directory ? directories : choices(value?.choices ?? [])
        return `    ${quote(`${key(node)} ${name}`)}) ${act}; return ;;`
      }),
  )
}

function bash(tree: readonly Node[], live: boolean): string {
  const cases = tree.map((it) => {
    const candidates = `${plain(it).join(' ')}${it.session && live ? ` $(${LIVE})` : ''}`
    return `    ${quote(key(it))}) plain="${candidates}"; flags="${it.flags.map((flag) => flag.name).join(' ')}" ;;`
  })
  const values = valueCases(
    tree,
    'COMPREPLY=($(compgen -d -- "$cur"))',
    (choices) => `COMPREPLY=($(compgen -W "${choices.join(' ')}" -- "$cur"))`,
  )
  return `# bash completion of pohunek: source <(pohunek completions bash)
_pohunek() {
  local cur="\${COMP_WORDS[COMP_CWORD]}" at="" plain="" flags="" i
  COMPREPLY=()
  for ((i = 1; i < COMP_CWORD; i++)); do
    case "$at \${COMP_WORDS[i]}" in
      ${steps(tree)}) at="$at \${COMP_WORDS[i]}" ;;
    esac
  done
  case "$at \${COMP_WORDS[COMP_CWORD - 1]}" in
${values.join('\n')}
  esac
  case "$at" in
${cases.join('\n')}
  esac
  if [[ $cur == -* ]]; then COMPREPLY=($(compgen -W "$flags" -- "$cur")); else COMPREPLY=($(compgen -W "$plain" -- "$cur")); fi
}
complete -F _pohunek pohunek
`
}

function zsh(tree: readonly Node[], live: boolean): string {
  const described = (all: readonly Choice[]): string =>
    all.map((it) => quote(`${it.name.replaceAll(':', String.raw`\:`)}:${it.about}`)).join(' ')
  const cases = tree.map((it) => {
    const words = [...it.next, ...it.choices.map((name) => ({ name, about: '' }))]
    const sessions = it.session && live ? `; sessions=(\${(f)"$(${LIVE})"})` : ''
    return `    ${quote(key(it))}) plain=(${described(words)}); flags=(${described(it.flags)})${sessions} ;;`
  })
  const values = valueCases(tree, '_files -/', (choices) =>
    choices.length > 0 ? `compadd -- ${choices.map(quote).join(' ')}` : `_message value`,
  )
  return `#compdef pohunek
# zsh completion of pohunek: source <(pohunek completions zsh), behind compinit
_pohunek() {
  local at="" i
  local -a plain flags sessions
  for ((i = 2; i < CURRENT; i++)); do
    case "$at \${words[i]}" in
      ${steps(tree)}) at="$at \${words[i]}" ;;
    esac
  done
  case "$at \${words[CURRENT - 1]}" in
${values.join('\n')}
  esac
  case "$at" in
${cases.join('\n')}
  esac
  if [[ \${words[CURRENT]} == -* ]]; then
    _describe -o option flags
  else
    (( $#plain )) && _describe command plain
    (( $#sessions )) && compadd -- $sessions
  fi
}
if [ "$funcstack[1]" = "_pohunek" ]; then _pohunek "$@"; else compdef _pohunek pohunek; fi
`
}

function fish(tree: readonly Node[], live: boolean): string {
  const values = ({ value }: Choice): string => {
    if (value === undefined) return ''
    if (value.directory) return ` -x -a ${quote('(__fish_complete_directories)')}`
    return value.choices.length > 0 ? ` -x -a ${quote(value.choices.join(' '))}` : ' -x'
  }
  const option = (where: string, flag: Choice): string =>
    `complete -c pohunek ${where} -l ${flag.name.slice('--'.length)} -d ${quote(flag.about)}${values(flag)}`
  const rows = tree.flatMap((it) => {
    const here = `-n ${quote(`__pohunek_at "${key(it)}"`)}`
    return [
      ...it.next.map((step) => `complete -c pohunek ${here} -a ${quote(step.name)} -d ${quote(step.about)}`),
      ...it.choices.map((choice) => `complete -c pohunek ${here} -a ${quote(choice)}`),
      ...(it.words.length > 0 && it.next.length === 0
        ? it.flags.filter((flag) => !global.includes(flag)).map((flag) => option(here, flag))
        : []),
      ...(it.session && live ? [`complete -c pohunek ${here} -a ${quote(`(env ${LIVE})`)} -d session`] : []),
    ]
  })
  return `# fish completion of pohunek: pohunek completions fish | source
function __pohunek_at
  set -l at ""
  for token in (commandline -opc)[2..-1]
    if contains -- "$at $token" ${steps(tree).replaceAll('|', ' ')}
      set at "$at $token"
    end
  end
  test "$at" = "$argv[1]"
end
complete -c pohunek -f
${global.map((it) => option('', it)).join('\n')}
${rows.join('\n')}
`
}

const SHELLS: Readonly<Record<string, (tree: readonly Node[], live: boolean) => string>> = { bash, zsh, fish }

export const completionsCommand = (commands: readonly Command[]): Command => ({
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
