/** detect.toml: what is taken, what is refused and how the refusal reads. */
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { Foreground } from '../../plugins/detection/identity.ts'
import { parseManifest } from '../../plugins/detection/manifest.ts'
import { Allowance, BUDGET_MS } from '../../plugins/detection/allowance.ts'
import { bestRule } from '../../plugins/detection/match.ts'
import { slownessOf } from '../../plugins/detection/manifests.ts'
import { readPicture } from '../../plugins/detection/readings.ts'
import { Fault } from '../../protocol/fault.ts'
import { REPOSITORY } from '../harness/roots.ts'

const FILE = '/config/agents/mine.detect.toml'
const RULE = 'id = "r"\nstate = "idle"\npriority = 1\nregion = "whole_recent"\n'

const rule = (body: string, id = 'r'): string => `[[rules]]\n${RULE.replace('"r"', JSON.stringify(id))}${body}\n`

function refusal(text: string): Fault {
  try {
    parseManifest(text, FILE)
  } catch (failure) {
    expect(failure).toBeInstanceOf(Fault)
    return failure as Fault
  }
  throw new Error('it was taken')
}

const screen = (...visible_lines: string[]) => ({ visible_lines, wrapped_rows: [] })

test('a manifest with all it may have is read as written', () => {
  const manifest = parseManifest(
    `
[process]
comm = ["^a$", "^b"]
cmdline = "(^|/)a( |$)"

[[rules]]
id = "one"
state = "blocked"
priority = -5
region = "bottom_lines(8)"
visible_blocker = true
contains = ["Proceed?", "YES"]
regex = '(?i)^\\s*x'
line_regex = ["a", '[\\x{2800}-\\x{28FF}]']
all = [{ contains = "p" }, { any = [{ regex = "q" }, { not = { line_regex = "r" } }] }]
not = [{ contains = "s" }]
`,
    FILE,
  )
  expect(manifest.process.comm.map((it) => it.test('a'))).toEqual([true, false])
  expect(manifest.process.cmdline[0]?.test('/usr/bin/a -c')).toBe(true)
  const [one] = manifest.rules
  expect(one).toMatchObject({
    id: 'one',
    state: 'blocked',
    priority: -5,
    region: { kind: 'bottom_lines', count: 8 },
    visibleBlocker: true,
    gate: { contains: ['proceed?', 'yes'], not: [{ contains: ['s'] }] },
  })
  expect(one?.gate.all[1]?.any[1]?.not[0]?.lineRegex[0]?.source).toBe('r')
  expect(one?.gate.lineRegex[1]?.regex.test('⠋')).toBe(true)
  expect(one?.gate.regex[0]?.regex.test('  X')).toBe(true)
  expect(parseManifest('', FILE)).toEqual({ process: { comm: [], cmdline: [] }, rules: [] })
})

const COMPOSER = '[composer]\nregion = "whole_recent"\nregex = "x"\n[composer.draft]\n'

test('a composer is a region and matchers, and counts among them', () => {
  const composer = `[composer]\nregion = "bottom_lines(2)"\nline_regex = '^>( |$)'\nnot = { contains = "Yes" }\n`
  const manifest = parseManifest(composer, FILE)
  expect(manifest.composer).toMatchObject({ region: { kind: 'bottom_lines', count: 2 } })
  expect(readPicture(manifest, screen('> x', ''))).toMatchObject({ composer: true })
  expect(readPicture(manifest, screen('> x', '1. yes'))).toMatchObject({ composer: false })
  expect(readPicture(manifest, screen('> x', '', ''))).toMatchObject({ composer: false })
  expect(readPicture(parseManifest('', FILE), screen('> x'))).toMatchObject({ composer: undefined })
})

test.each([
  ['not toml at all [', undefined, /line 1/],
  ['version = 1', 'version', /unknown key/],
  ['[process]\nname = "x"', 'process.name', /unknown key/],
  ['composer = 3', 'composer', /no table|not a table/],
  ['[composer]\nregex = "x"', 'composer.region', /missing/],
  ['[composer]\nregion = "whole_recent"', 'composer', /matches nothing/],
  ['[composer]\nregion = "osc_title"\nregex = "x"', 'composer.region', /no region of the screen/],
  ['[composer]\nregion = "whole_recent"\nregex = "x"\nstate = "idle"', 'composer.state', /unknown key/],
  ['[composer]\nregion = "whole_recent"\nregex = "("', 'composer.regex', /./],
  [`${COMPOSER}regex = "x"`, 'composer.draft.region', /missing/],
  [`${COMPOSER}region = "osc_title"\nregex = "x"`, 'composer.draft.region', /no region of the screen/],
  [`${COMPOSER}region = "whole_recent"`, 'composer.draft.regex', /not one text/],
  [`${COMPOSER}region = "whole_recent"\nregex = ["x", "y"]`, 'composer.draft.regex', /not one text/],
  [`${COMPOSER}region = "whole_recent"\nregex = "x"\nhint = "red"`, 'composer.draft.hint', /not "dim"/],
  [`${COMPOSER}region = "whole_recent"\nregex = "x"\ncontains = "x"`, 'composer.draft.contains', /unknown key/],
  ['[process]\ncomm = 3', 'process.comm', /text/],
  ['rules = 3', 'rules', /list of tables/],
  [rule('').replace('id = "r"\n', ''), 'rules[0].id', /missing/],
  [rule('contains = "x"', 'has blank'), 'rules[0].id', /blanks/],
  [rule('contains = "x"') + rule('contains = "x"'), 'rules[1].id', /"r" is used twice/],
  [rule('contains = "x"').replace('"idle"', '"done"'), 'rules[0] "r".state', /none of working, blocked, idle/],
  [rule('contains = "x"').replace('priority = 1\n', ''), 'rules[0] "r".priority', /missing/],
  [rule('contains = "x"').replace('priority = 1', 'priority = 1.5'), 'rules[0] "r".priority', /integer/],
  [
    rule('contains = "x"').replace('whole_recent', 'whole_screen'),
    'rules[0] "r".region',
    /unknown region "whole_screen"/,
  ],
  [rule('contains = "x"').replace('whole_recent', 'bottom_lines'), 'rules[0] "r".region', /unknown region/],
  [rule('contains = "x"').replace('whole_recent', 'bottom_lines(0)'), 'rules[0] "r".region', /unknown region/],
  [rule('contains = "x"').replace('whole_recent', 'prompt_box_body(2)'), 'rules[0] "r".region', /unknown region/],
  [rule('visible_blocker = "yes"\ncontains = "x"'), 'rules[0] "r".visible_blocker', /neither true nor false/],
  [rule('visible_idle = true\ncontains = "x"'), 'rules[0] "r".visible_idle', /unknown key/],
  [rule(''), 'rules[0] "r"', /matches nothing/],
  [rule('contains = []'), 'rules[0] "r".contains', /empty/],
  [rule('contains = ["a", ""]'), 'rules[0] "r".contains', /empty text/],
  [rule('contains = ["a", 3]'), 'rules[0] "r".contains', /text/],
  [rule('any = []'), 'rules[0] "r".any', /empty/],
  [rule('any = [{ contains = "a" }, { state = "idle", contains = "a" }]'), 'rules[0] "r".any[1].state', /unknown key/],
  [rule('all = [{ not = { regex = "(" } }]'), 'rules[0] "r".all[0].not.regex', /not a regular expression/],
  [rule("line_regex = '(a+)+b'"), 'rules[0] "r".line_regex', /repeats a group/],
  [rule("line_regex = '(a|b)*'"), 'rules[0] "r".line_regex', /repeats a group/],
  [rule(`line_regex = '${'a?'.repeat(21)}b'`), 'rules[0] "r".line_regex', /more than 20 optional parts/],
  [rule("line_regex = '(?=a)b'"), 'rules[0] "r".line_regex', /look-around/],
  [rule("line_regex = '(a)\\1'"), 'rules[0] "r".line_regex', /back reference/],
])('refused, naming file and key: %j', (text, key, problem) => {
  const fault = refusal(text)
  expect(fault).toMatchObject({ code: 'invalid_profile', class: 'runtime' })
  expect(fault.message).toContain(FILE)
  if (key !== undefined) expect(fault.message).toContain(`${key}: `)
  expect(fault.message).toMatch(problem)
  expect(fault.message).not.toContain('\n')
})

test('limits: the last that fits is taken, one more is refused', () => {
  const rules = (count: number): string =>
    Array.from({ length: count }, (_, n) => rule('contains = "x"', `r${n}`)).join('')
  expect(parseManifest(rules(128), FILE).rules).toHaveLength(128)
  expect(refusal(rules(129)).message).toMatch(/rules: has 129 rules/)

  const gates = (count: number): string =>
    rule(`any = [${Array.from({ length: count - 1 }, () => '{ contains = "x" }').join(',')}]`)
  expect(parseManifest(gates(512), FILE).rules).toHaveLength(1)
  expect(refusal(gates(513)).message).toMatch(/any\[511\]: is one gate more than the 512/)

  const matchers = (count: number): string =>
    rule(`contains = [${Array.from({ length: count }, () => '"x"').join(',')}]`)
  expect(parseManifest(matchers(1_024), FILE).rules).toHaveLength(1)
  expect(refusal(matchers(1_025)).message).toMatch(/one matcher more than the 1024/)

  const nested = (depth: number): string =>
    rule(`all = [${'{ all = ['.repeat(depth - 2)}{ contains = "x" }${'] }'.repeat(depth - 2)}]`)
  expect(parseManifest(nested(8), FILE).rules).toHaveLength(1)
  expect(refusal(nested(9)).message).toMatch(/nested deeper than 8/)
  expect(refusal(nested(3_000)).code).toBe('invalid_profile')

  const long = (bytes: number): string => rule(`contains = "${'é'.repeat(bytes / 2)}"`)
  expect(parseManifest(long(4_096), FILE).rules).toHaveLength(1)
  expect(refusal(long(4_098)).message).toMatch(/contains: has a text of 4098 bytes, 4096 are allowed/)

  const padded = (bytes: number): string => {
    const text = rule('contains = "x"')
    return `${text}#${'.'.repeat(bytes - text.length - 1)}`
  }
  expect(parseManifest(padded(262_144), FILE).rules).toHaveLength(1)
  expect(refusal(padded(262_145)).message).toMatch(/has 262145 bytes/)
})

test('gates: contains looks away from case, every part of a gate holds, any needs one, not needs none', () => {
  const holds = (body: string, ...rows: string[]): boolean =>
    bestRule(parseManifest(rule(body), FILE), screen(...rows), 'screen') !== undefined
  expect(holds('contains = ["PROCEED", "yes"]', 'Do you want to proceed?', 'Yes')).toBe(true)
  expect(holds('contains = ["proceed", "never"]', 'Do you want to proceed?')).toBe(false)
  expect(holds('regex = ["^a", "c$"]', 'a', 'b', 'c')).toBe(true)
  expect(holds('regex = "^b"', 'a', 'b')).toBe(false)
  expect(holds('line_regex = ["^b$", "^a$"]', 'a', 'b')).toBe(true)
  expect(holds('line_regex = "a.*b"', 'a', 'b')).toBe(false)
  expect(holds('any = [{ contains = "x" }, { contains = "b" }]', 'a', 'b')).toBe(true)
  expect(holds('any = [{ contains = "x" }, { contains = "y" }]', 'a')).toBe(false)
  expect(holds('all = [{ contains = "a" }, { contains = "y" }]', 'a')).toBe(false)
  expect(holds('contains = "a"\nnot = { contains = "b" }', 'a')).toBe(true)
  expect(holds('contains = "a"\nnot = { contains = "b" }', 'a', 'b')).toBe(false)
  expect(holds('contains = "a"\nnot = [{ contains = "x" }, { contains = "b" }]', 'a', 'b')).toBe(false)
  // An empty region is no evidence, whatever is not in it.
  expect(holds('not = { contains = "b" }', '', '')).toBe(false)
})

test('the highest priority wins, among equals the first in the file; groups are apart', () => {
  const manifest = parseManifest(
    [
      rule('contains = "a"', 'low'),
      rule('contains = "a"', 'first').replace('priority = 1', 'priority = 7'),
      rule('contains = "a"', 'second').replace('priority = 1', 'priority = 7').replace('"idle"', '"working"'),
      rule('contains = "a"', 'title').replace('whole_recent', 'osc_title').replace('priority = 1', 'priority = 99'),
      rule('contains = "b"', 'other').replace('priority = 1', 'priority = 100'),
    ].join(''),
    FILE,
  )
  const picture = { ...screen('a'), title: 'a' }
  expect(bestRule(manifest, picture, 'screen')?.id).toBe('first')
  expect(bestRule(manifest, picture, 'screen', undefined, 'working')?.id).toBe('second')
  expect(bestRule(manifest, picture, 'screen', undefined, 'blocked')).toBeUndefined()
  expect(bestRule(manifest, picture, 'title')?.id).toBe('title')
  expect(bestRule(manifest, screen('a'), 'title')).toBeUndefined()
})

/** Processor time of this process in milliseconds. */
function took(run: () => void): number {
  const before = process.cpuUsage()
  run()
  const { user, system } = process.cpuUsage(before)
  return (user + system) / 1_000
}

/** What is over the budget: the engine's own threads and the way to the next place where it can be stopped. */
const SLACK_MS = 100
const at = (priority: number, body: string, id: string, state = 'idle'): string =>
  rule(body, id).replace('priority = 1', `priority = ${priority}`).replace('"idle"', JSON.stringify(state))
const X = 'x'.repeat(79)

test.each([
  ['(?s).*.*.*.*x', 'a'.repeat(20_000)],
  ['\\s*\\s*\\s*\\s*\\s*\\s*x', `-${' '.repeat(2_000)}`],
  [`${'(a|a)'.repeat(40)}b`, 'a'.repeat(60)],
  [`${'a{0,900}'.repeat(6)}b`, 'a'.repeat(2_000)],
  ['x*[x]*[xx]*[xxx]*[xxxx]*[xxxxx]*[xxxxxx]*[xxxxxxx]*y', X],
])('a pattern that needs too long is stopped, and its rule is given up when it is so again: %s', (source, text) => {
  const manifest = parseManifest(rule(`regex = '${source}'`), FILE)
  expect(slownessOf(manifest)).toBeUndefined()
  const look = (): void => expect(readPicture(manifest, screen(text)).screen).toBeUndefined()
  expect(took(look)).toBeLessThan(BUDGET_MS + SLACK_MS)
  expect(slownessOf(manifest)).toMatch(/cut short/)
  for (let n = 0; n < 2; n++) expect(took(look)).toBeLessThan(BUDGET_MS + SLACK_MS)
  expect(slownessOf(manifest)).toMatch(/not used any more, .* 50 ms .*: rule r$/)
  expect(readPicture(manifest, screen('x b aab xy  x')).screen).toBeUndefined()
})

test('a hundred slow rules have one budget a look, and together cost no more than ten looks', () => {
  const slow = Array.from({ length: 100 }, (_, n) => at(500, `regex = '.*.*.*.*.*.*#${n}'`, `b${n}`, 'blocked'))
  const manifest = parseManifest([...slow, at(100, "line_regex = '^❯'", 'composer')].join(''), FILE)
  const look = (): void => {
    // None of the questions can be ruled out, so the box below them says nothing.
    expect(readPicture(manifest, screen(X, X, X, '❯')).screen).toBeUndefined()
  }
  for (let n = 0; n < 10; n++) expect(took(look)).toBeLessThan(BUDGET_MS + SLACK_MS)
  expect(slownessOf(manifest)).toMatch(/none of them is used any more/)
  expect(took(look)).toBeLessThan(BUDGET_MS)
})

test('a rule that is given up takes nothing from the others', () => {
  const slow = at(900, "regex = '.*.*.*.*.*.*#'", 'slow', 'working')
  const manifest = parseManifest(slow + at(100, "line_regex = '^❯'", 'composer'), FILE)
  const composer = (): string | undefined => readPicture(manifest, screen(X, X, X, '❯')).screen?.rule
  for (let n = 0; n < 3; n++) composer()
  expect(slownessOf(manifest)).toMatch(/: rule slow$/)
  for (let n = 0; n < 20; n++) expect(composer()).toBe('composer')
})

test.each(['not', 'any', 'all'])('a stopped pattern never makes its rule hold: in %s', (where) => {
  const slow = "{ regex = '.*.*.*.*.*.*#' }"
  const nested = { not: `not = ${slow}`, any: `any = [${slow}, { contains = "x" }]`, all: `all = [{ not = ${slow} }]` }
  const manifest = parseManifest(rule(`contains = "x"\n${nested[where as 'not' | 'any' | 'all']}`), FILE)
  for (let n = 0; n < 5; n++) expect(readPicture(manifest, screen(X, X, X)).screen).toBeUndefined()
})

test('the time of a look is processor time: a busy machine gives nothing up', () => {
  const manifest = parseManifest(rule("line_regex = '^❯'"), FILE)
  const time = new Allowance()
  const rest = new Int32Array(new SharedArrayBuffer(4))
  const waits = (): unknown => Atomics.wait(rest, 0, 0, 2 * BUDGET_MS)
  let tried = 0
  expect(time.each(manifest, manifest.rules, () => (tried++ === 0 ? waits() : undefined))).toEqual([])
  expect(slownessOf(manifest)).toBeUndefined()
})

test('process patterns run in the same bounds', () => {
  const manifest = parseManifest("[process]\ncmdline = ['.*.*.*.*.*#Z']\n", FILE)
  const root = { pid: 7, startIdentity: 1n }
  const facts = {
    foregroundGroup: () => 9,
    membersOf: () => Array.from({ length: 50 }, (_, n) => ({ pid: 9 + n, startIdentity: 1n })),
    argv: () => ['x'.repeat(4_000)],
    isRunning: () => true,
    variable: () => undefined,
    program: () => ({ image: 'i', command: 'c' }),
  } as unknown as ConstructorParameters<typeof Foreground>[0]
  const front = new Foreground(facts, root as never, 'instance')
  for (let n = 0; n < 3; n++) {
    expect(took(() => expect(front.look(manifest.process, n * 1_000).identity).toBe('other'))).toBeLessThan(
      BUDGET_MS + SLACK_MS,
    )
  }
  expect(slownessOf(manifest)).toMatch(/\[process\]/)
})

test('the limit takes nothing from patterns that need little, however often they are tried', () => {
  const manifest = parseManifest(rule("line_regex = '^.*❯ .*\\d+\\. .*$'"), FILE)
  for (let n = 0; n < 100; n++)
    expect(readPicture(manifest, screen('-'.repeat(3_000), '❯ 1. Yes')).screen).toBeDefined()
  expect(slownessOf(manifest)).toBeUndefined()
})

test.each(['shell', 'claude', 'codex', 'hermes', 'pi'])('the manifest of %s is taken', (id) => {
  const file = join(REPOSITORY, 'runtime-packages', id, 'detect.toml')
  const manifest = parseManifest(readFileSync(file, 'utf8'), file)
  expect(manifest.rules.length).toBeGreaterThan(0)
  // A question ranks above everything else that the same screen may show.
  const onScreen = manifest.rules.filter((it) => !it.region.kind.startsWith('osc_') && it.id !== 'permission-weak')
  const questions = onScreen.filter((it) => it.visibleBlocker).map((it) => it.priority)
  for (const it of onScreen.filter(({ visibleBlocker }) => !visibleBlocker))
    expect(it.priority, it.id).toBeLessThan(Math.min(Infinity, ...questions))
})
