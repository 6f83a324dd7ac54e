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
  /** Its arguments, in order. */
  readonly places: readonly Place[]
}

interface Place {
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
    return { words, next: [...next.values()], flags: global, places: [] }
  })
  const leaves = shown.map((it): Node => ({
    words: it.path,
    next: [],
    flags: [...it.flags.filter((flag) => !flag.hidden).map(choiceOf), ...global],
    places: it.arguments.flatMap(({ session = false, choices = [], repeat = false }) =>
      Array.from({ length: repeat ? REPEATED : 1 }, () => ({ session, choices })),
    ),
  }))
  return [...inner, ...leaves]
}

/** Places of an argument that repeats which are completed. */
const REPEATED = 8

/** Lists what is there now and never starts a daemon for it. */
const LIVE = 'POHUNEK_NO_START=1 pohunek session list --targets 2>/dev/null'
const key = (node: Node): string => node.words.map((word) => ` ${word}`).join('')
const quote = (text: string): string => `'${text.replaceAll("'", String.raw`'\''`)}'`

function steps(tree: readonly Node[]): string {
  return tree
    .filter((it) => it.words.length > 0)
    .map((it) => quote(key(it)))
    .join('|')
}

interface Spot {
  readonly at: string
  readonly words: readonly Choice[]
  readonly session: boolean
}

/** What can stand at a place of the tree: `<words> <number of the argument>`, with the words that follow where it is inner. */
function spots(tree: readonly Node[], live: boolean): readonly Spot[] {
  return tree.flatMap((node): Spot[] =>
    node.next.length > 0
      ? [{ at: `${key(node)} 0`, words: node.next, session: false }]
      : node.places.map(({ session, choices }, place) => ({
          at: `${key(node)} ${place}`,
          words: choices.map((name) => ({ name, about: '' })),
          session: session && live,
        })),
  )
}

/** Flags that take the next word, as the shells' loops see them. */
const takers = (tree: readonly Node[]): string =>
  tree
    .flatMap((node) =>
      node.flags.filter((it) => it.value !== undefined).map(({ name }) => quote(`${key(node)} ${name}`)),
    )
    .join('|')

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
  const flags = tree.map((it) => `    ${quote(key(it))}) flags="${it.flags.map((flag) => flag.name).join(' ')}" ;;`)
  const places = spots(tree, live).map(
    ({ at, words, session }) =>
      `    ${quote(at)}) plain="${words.map((it) => it.name).join(' ')}"${session ? '; _pohunek_targets' : ''} ;;`,
  )
  const values = valueCases(
    tree,
    'COMPREPLY=($(compgen -d -- "$cur"))',
    (choices) => `COMPREPLY=($(compgen -W "${choices.join(' ')}" -- "$cur"))`,
  )
  return `# bash completion of pohunek: source <(pohunek completions bash)
# Ids and names of sessions. A name is written as the shell reads it; behind an open quote it is written plain.
_pohunek_targets() {
  local typed="$cur" target word
  case "$cur" in
    \\'*|\\"*) typed="\${cur:1}" ;;
    *) typed="\${cur//\\\\/}" ;;
  esac
  while IFS= read -r target; do
    [[ $target == "$typed"* ]] || continue
    word="$target"
    if [[ $cur != [\\'\\"]* ]]; then
      printf -v word %q "$target"
      # Readline breaks words at these as well.
      [[ $word == "$'"* ]] || { word="\${word//:/\\\\:}"; word="\${word//=/\\\\=}"; }
    fi
    COMPREPLY+=("$word")
  done < <(${LIVE})
}
_pohunek() {
  local cur="\${COMP_WORDS[COMP_CWORD]}" at="" plain="" flags="" i n=0
  COMPREPLY=()
  for ((i = 1; i < COMP_CWORD; i++)); do
    case "$at \${COMP_WORDS[i]}" in
      ${steps(tree)}) at="$at \${COMP_WORDS[i]}"; n=0 ;;
      ${takers(tree)}) [[ \${COMP_WORDS[i + 1]} == = ]] && ((i++)); ((i++)) ;;
      *" -"*) ;;
      *) ((++n)) ;;
    esac
  done
  case "$at \${COMP_WORDS[COMP_CWORD - 1]}" in
${values.join('\n')}
  esac
  if [[ $cur == -* ]]; then
    case "$at" in
${flags.join('\n')}
    esac
    COMPREPLY=($(compgen -W "$flags" -- "$cur"))
    return
  fi
  case "$at $n" in
${places.join('\n')}
  esac
  COMPREPLY+=($(compgen -W "$plain" -- "$cur"))
}
complete -F _pohunek pohunek
`
}

function zsh(tree: readonly Node[], live: boolean): string {
  const described = (all: readonly Choice[]): string =>
    all.map((it) => quote(`${it.name.replaceAll(':', String.raw`\:`)}:${it.about}`)).join(' ')
  const flags = tree.map((it) => `    ${quote(key(it))}) flags=(${described(it.flags)}) ;;`)
  const places = spots(tree, live).map(
    ({ at, words, session }) =>
      `    ${quote(at)}) plain=(${described(words)})${session ? `; sessions=(\${(f)"$(${LIVE})"})` : ''} ;;`,
  )
  const values = valueCases(tree, '_files -/', (choices) =>
    choices.length > 0 ? `compadd -- ${choices.map(quote).join(' ')}` : `_message value`,
  )
  return `#compdef pohunek
# zsh completion of pohunek: source <(pohunek completions zsh), behind compinit
_pohunek() {
  local at="" i n=0
  local -a plain flags sessions
  for ((i = 2; i < CURRENT; i++)); do
    case "$at \${words[i]}" in
      ${steps(tree)}) at="$at \${words[i]}"; n=0 ;;
      ${takers(tree)}) ((i++)) ;;
      *" -"*) ;;
      *) ((++n)) ;;
    esac
  done
  case "$at \${words[CURRENT - 1]}" in
${values.join('\n')}
  esac
  if [[ \${words[CURRENT]} == -* ]]; then
    case "$at" in
${flags.join('\n')}
    esac
    _describe -o option flags
    return
  fi
  case "$at $n" in
${places.join('\n')}
  esac
  (( $#plain )) && _describe command plain
  (( $#sessions )) && compadd -- $sessions
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
  const rows = [
    ...spots(tree, live).flatMap(({ at, words, session }) => {
      const here = `-n ${quote(`__pohunek_at "${at}"`)}`
      return [
        ...words.map((it) => {
          const about = it.about === '' ? '' : ` -d ${quote(it.about)}`
          return `complete -c pohunek ${here} -a ${quote(it.name)}${about}`
        }),
        ...(session ? [`complete -c pohunek ${here} -a ${quote(`(env ${LIVE})`)} -d session`] : []),
      ]
    }),
    ...tree
      .filter((it) => it.words.length > 0 && it.next.length === 0)
      .flatMap((it) => {
        const here = `-n ${quote(`__pohunek_in "${key(it)}"`)}`
        return it.flags.filter((flag) => !global.includes(flag)).map((flag) => option(here, flag))
      }),
  ]
  const list = (patterns: string): string => patterns.replaceAll('|', ' ')
  return `# fish completion of pohunek: pohunek completions fish | source
# The words of the command before the cursor, and how many arguments are behind them.
function __pohunek_place
  set -l at ""
  set -l n 0
  set -l skip 0
  for token in (commandline -opc)[2..-1]
    if test $skip = 1
      set skip 0
    else if contains -- "$at $token" ${list(steps(tree))}
      set at "$at $token"
      set n 0
    else if contains -- "$at $token" ${list(takers(tree))}
      set skip 1
    else if not string match -q -- "-*" $token
      set n (math $n + 1)
    end
  end
  echo $at
  echo $n
end
function __pohunek_at
  set -l place (__pohunek_place)
  test "$place[1] $place[2]" = "$argv[1]"
end
function __pohunek_in
  set -l place (__pohunek_place)
  test "$place[1]" = "$argv[1]"
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
  examples: [
    'eval "$(pohunek completions bash --dynamic)"\tfor this shell; in ~/.bashrc for every one',
    'eval "$(pohunek completions zsh --dynamic)"\tthe same, behind compinit',
    'pohunek completions fish --dynamic | source\tthe same in config.fish',
  ],
  arguments: [{ name: 'shell', about: 'the shell', choices: Object.keys(SHELLS) }],
  flags: [{ name: 'dynamic', about: 'also complete the ids and names of the sessions there are' }],
  json: false,
  run(_context, input) {
    const script = SHELLS[input.argument('shell') ?? '']
    if (script === undefined) throw faults.cli_usage({ problem: 'no such shell' })
    return Promise.resolve({ ok: null, human: [{ verbatim: script(completionTree(commands), input.has('dynamic')) }] })
  },
})
