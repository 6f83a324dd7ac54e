// npm start: one durable session from beginning to end, with the real programs, in roots of its own. Leaves nothing behind
// unless the session is kept.
import { execFile, spawn, spawnSync } from 'node:child_process'
import { existsSync, mkdirSync, mkdtempSync, readFileSync, readdirSync, rmSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { createInterface } from 'node:readline'
import { setTimeout as pause } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'

const root = dirname(dirname(fileURLToPath(import.meta.url)))
const pohunek = join(root, 'bin/pohunek')
if (
  !['pohunek.cjs', 'pohunek-full.cjs', 'pohunekd.cjs', 'pohunek-sessiond.cjs'].every((it) =>
    existsSync(join(root, 'dist', it)),
  )
) {
  process.stdout.write('building dist/ …\n')
  const built = spawnSync(process.execPath, [join(root, 'scripts/build.mjs')], { cwd: root, stdio: 'inherit' })
  if (built.status !== 0) process.exit(1)
}

// Socket paths are short by law of the system, so not below a deep TMPDIR.
const base = mkdtempSync('/tmp/pohunek-demo-')
const roots = Object.fromEntries(
  ['RUNTIME_DIR', 'CONFIG_HOME', 'DATA_HOME', 'STATE_HOME', 'CACHE_HOME'].map((it) => [
    `XDG_${it}`,
    join(base, it.split('_')[0].toLowerCase()),
  ]),
)
for (const path of Object.values(roots)) mkdirSync(path, { mode: 0o700 })
const env = {
  ...Object.fromEntries(Object.entries(process.env).filter(([name]) => !name.startsWith('POHUNEK_'))),
  ...roots,
}

/**
 * The demo types into the user's own shell, and that line has no place in the user's history: the shell gets a history
 * file of the demo's. zsh's and fish's rule over theirs is in their own settings, so they are told in their own ways.
 */
const profile = join(roots.XDG_CONFIG_HOME, 'pohunek/agents/demo.toml')
const history = join(base, 'history')
const zsh = join(base, 'zsh')
const dotfiles = process.env.ZDOTDIR ?? process.env.HOME ?? '/'
mkdirSync(dirname(profile), { recursive: true, mode: 0o700 })
mkdirSync(zsh, { mode: 0o700 })
writeFileSync(
  join(zsh, '.zshenv'),
  `ZDOTDIR=${quoted(dotfiles)}
[ -r "$ZDOTDIR/.zshenv" ] && . "$ZDOTDIR/.zshenv"
_pohunek_demo() { unset HISTFILE }
precmd_functions+=(_pohunek_demo)
`,
)
writeFileSync(
  profile,
  `base = "shell"

[env]
HISTFILE = ${JSON.stringify(history)}
PROMPT_COMMAND = ${JSON.stringify(`HISTFILE=${quoted(history)}`)}
ZDOTDIR = ${JSON.stringify(zsh)}
fish_history = ""
`,
  { mode: 0o600 },
)

function quoted(text) {
  return `'${text.replaceAll("'", String.raw`'\''`)}'`
}

const say = (text = '') => process.stdout.write(`${text}\n`)
let stepAt = performance.now()
function done(text) {
  say(`   ${text}  (${Math.round(performance.now() - stepAt)} ms)`)
  stepAt = performance.now()
}
let steps = 0
function step(text) {
  stepAt = performance.now()
  say(`\n${++steps}. ${text}`)
}

class Wrong extends Error {}

/** Runs pohunek and answers its output; what it says on stderr is shown. */
function run(...args) {
  say(`   $ pohunek ${args.map((it) => (/^[\w./=-]+$/.test(it) ? it : `'${it}'`)).join(' ')}`)
  return quiet(args, true)
}

function quiet(args, loud = false) {
  return new Promise((resolve, reject) => {
    execFile(pohunek, args, { env, cwd: root, timeout: 60_000 }, (failure, stdout, stderr) => {
      if (loud && stderr !== '') say(indented(stderr))
      if (failure) reject(new Wrong(`pohunek ${args.join(' ')} failed: ${stderr || stdout || failure.message}`))
      else resolve(stdout)
    })
  })
}

const json = async (...args) => JSON.parse(await quiet([...args, '--json'])).ok
const indented = (text) =>
  text
    .trimEnd()
    .split('\n')
    .map((it) => `   ${it}`)
    .join('\n')

/** The screen once it stands still and shows `marker`. */
async function screenWith(id, marker) {
  const end = performance.now() + 15_000
  let last
  for (;;) {
    const lines = (await json('session', 'screen', id)).visible_lines
    const text = lines.join('\n').trimEnd()
    if (text === last && text.includes(marker)) return text
    if (performance.now() > end) throw new Wrong(`the screen never showed ${JSON.stringify(marker)}; it is:\n${text}`)
    last = text
    await pause(100)
  }
}

const picture = (text) => {
  const lines = text.split('\n').slice(-12)
  const width = Math.min(96, Math.max(20, ...lines.map((it) => it.length)))
  return [`   ┌${'─'.repeat(width + 2)}`, ...lines.map((it) => `   │ ${it}`), `   └${'─'.repeat(width + 2)}`].join('\n')
}

/** Processes whose environment or arguments name our roots. */
function left() {
  if (!existsSync('/proc/self/environ')) return []
  return readdirSync('/proc').filter((pid) => {
    if (!/^\d+$/.test(pid) || Number(pid) === process.pid) return false
    try {
      if (/^State:\s+Z/m.test(readFileSync(`/proc/${pid}/status`, 'latin1'))) return false
      return ['environ', 'cmdline'].some((it) => readFileSync(`/proc/${pid}/${it}`, 'latin1').includes(`${base}/`))
    } catch {
      return false // gone, or another user's
    }
  })
}

/** A zombie nobody reaped does not run. */
function runs(pid) {
  try {
    process.kill(pid, 0)
    return !/^State:\s+[ZX]/m.test(readFileSync(`/proc/${pid}/status`, 'latin1'))
  } catch (failure) {
    return failure.code === 'EPERM'
  }
}

/** A shell that is still starting shows typed text twice; wait for its prompt, but not for ever. */
async function prompted(id) {
  const end = performance.now() + 3_000
  while (performance.now() < end && (await json('session', 'screen', id)).visible_lines.join('').trim() === '')
    await pause(50)
}

async function demo() {
  say('pohunek keeps terminal sessions alive: a daemon may die, the program in the session does not notice.')

  step('A session for your shell (with a history of its own). No daemon runs yet, so the first command starts one.')
  const created = await run('session', 'new', '--agent', 'demo', '--name', 'demo', '--cwd', root)
  const session = await json('session', 'inspect', 'demo')
  done(created.trim())

  await prompted(session.id)

  step('One line is typed into it, and its screen is read back.')
  const marker = `hello from process ${session.pid}`
  await run('session', 'input', 'demo', 'echo "hello from process $$"')
  const before = await screenWith(session.id, marker)
  say(picture(before))
  done('that is the rendered screen')

  step('The daemon is killed with SIGKILL.')
  const { pid } = await json('daemon', 'status')
  if (!(pid > 1)) throw new Wrong('the daemon’s pid is not known')
  process.kill(pid, 'SIGKILL')
  const gone = performance.now() + 10_000
  while (runs(pid) && performance.now() < gone) await pause(5)
  done(`pid ${pid} is gone`)

  step('The next command brings a daemon back; it finds the session.')
  await run('session', 'inspect', session.id)
  const after = await json('session', 'inspect', session.id)
  const now = await screenWith(session.id, marker)
  const { pid: newPid } = await json('daemon', 'status')
  const facts = [
    ['daemon pid changed', newPid !== pid, `${pid} → ${newPid}`],
    ['same program, same pid', after.pid === session.pid, `${session.pid} = ${after.pid}`],
    [
      'same runtime',
      after.runtime?.worker_instance_id === session.runtime?.worker_instance_id,
      after.runtime?.worker_instance_id ?? '-',
    ],
    ['same screen', now === before, `${before.split('\n').length} lines compared`],
  ]
  for (const [what, holds, detail] of facts) say(`   ${holds ? 'yes' : 'NO '}  ${what} (${detail})`)
  const broken = facts.filter(([, holds]) => !holds)
  if (broken.length > 0)
    throw new Wrong(
      `not the same after the restart: ${broken.map(([what]) => what).join(', ')}\nbefore:\n${before}\nafter:\n${now}`,
    )
  done('the session outlived its daemon')

  step('The sessions there are:')
  say(indented(await run('session', 'list')))
  return session
}

function ask(question) {
  return new Promise((resolve) => {
    const line = createInterface({ input: process.stdin, output: process.stdout })
    line.once('close', () => resolve(''))
    line.question(question, (answer) => {
      resolve(answer.trim().toLowerCase())
      line.close()
    })
  })
}

const attach = () =>
  new Promise((resolve) =>
    spawn(pohunek, ['attach', 'demo'], { env, stdio: 'inherit' }).once('exit', (code) => resolve(code)),
  )

function keep() {
  const file = join(base, 'env')
  writeFileSync(
    file,
    Object.entries(roots)
      .map(([name, value]) => `export ${name}='${value}'\n`)
      .join(''),
  )
  say(
    `\nKept. In a shell:\n  . ${file}\n  ${pohunek} attach demo\nTo end it: ${pohunek} session rm demo; ${pohunek} daemon stop; rm -r ${base}`,
  )
}

/** Ends everything, then looks whether that is true. */
async function cleanUp() {
  await quiet(['session', 'rm', 'demo']).catch(() => undefined) // removed by the user, or never made
  await quiet(['daemon', 'stop']).catch(() => undefined) // told below when it is still there
  const end = performance.now() + 10_000
  while (left().length > 0 && performance.now() < end) await pause(50)
  const remaining = left()
  if (remaining.length > 0) {
    process.stderr.write(`still running: ${remaining.join(', ')} (in ${base})\n`)
    return false
  }
  rmSync(base, { recursive: true, force: true })
  say('\nThe session and its daemon are ended; nothing is left running.')
  return true
}

let code = 0
let kept = false
const interrupted = () => {
  void cleanUp().finally(() => process.exit(130))
}
process.once('SIGINT', interrupted).once('SIGTERM', interrupted)
try {
  await demo()
  say(`
What to type next (bin/ of this checkout, or anywhere after npm link):
  bin/pohunek session new --attach     your shell in a session; Ctrl-] leaves it running
  bin/pohunek session list             what there is
  bin/pohunek attach <id or name>      back to it, from any terminal
  bin/pohunek --help                   everything else`)
  if (process.stdin.isTTY && process.stdout.isTTY) {
    process.removeListener('SIGINT', interrupted)
    for (;;) {
      const answer = await ask(
        '\n[a] attach to the demo session now, [k] keep it and leave, [Enter] end it and leave: ',
      )
      if (answer === 'a') await attach()
      else {
        kept = answer === 'k'
        break
      }
    }
  }
} catch (failure) {
  process.stderr.write(
    `\n${failure instanceof Wrong ? failure.message : (failure.stack ?? failure)}\nThe demo failed.\n`,
  )
  code = 1
} finally {
  if (kept) keep()
  else if (!(await cleanUp())) code = 1
}
process.exit(code)
