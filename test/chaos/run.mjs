// npm run chaos: kills daemons under load; exits with 1 and the evidence when anything was lost, doubled or left.
//   --kills N    how many (default 200)
//   --seed N     the random decisions of an earlier run
//   --supervisor systemd   workers are units of a user manager started for the run (Linux, root)
//   --rate N     average bytes per second each program writes
import { fileURLToPath } from 'node:url'
import { parseArgs } from 'node:util'
import { runnerImport } from 'vite'

const { values } = parseArgs({
  options: {
    kills: { type: 'string', default: '200' },
    seed: { type: 'string' },
    supervisor: { type: 'string', default: 'detached' },
    rate: { type: 'string' },
  },
})
const number = (name) => {
  const value = Number(values[name])
  if (Number.isSafeInteger(value) && value >= 0) return value
  process.stderr.write(`--${name} ${values[name]} is no number\n`)
  process.exit(2)
}
if (!['detached', 'systemd'].includes(values.supervisor)) {
  process.stderr.write(`--supervisor ${values.supervisor} is none of detached, systemd\n`)
  process.exit(2)
}
const startManager = async () => {
  const manager = await (await load('../harness/user-systemd.ts')).startUserSystemd()
  if (typeof manager !== 'string') return manager
  process.stderr.write(`no systemd user manager here: ${manager}\n`)
  process.exit(2)
}
const load = async (path) => {
  const file = fileURLToPath(new URL(path, import.meta.url))
  return (await runnerImport(file, { configFile: false, logLevel: 'error', oxc: { target: 'node20' } })).module
}

const { default: build } = await load('../global-setup.ts')
build()
const { chaos } = await load('chaos.ts')
const manager = values.supervisor === 'systemd' ? await startManager() : undefined
// The timers that tests wait with keep no process alive.
setInterval(() => undefined, 2 ** 30)
const stop = new AbortController()
for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP']) process.once(signal, () => stop.abort())
const { lines, violations } = await chaos({
  kills: number('kills'),
  seed: values.seed === undefined ? Math.floor(Math.random() * 2 ** 31) : number('seed'),
  ...(values.rate === undefined ? {} : { rate: number('rate') }),
  ...(manager === undefined ? {} : { manager }),
  signal: stop.signal,
  say: (line) => process.stderr.write(`${line}\n`),
})
await manager?.[Symbol.asyncDispose]()
process.stdout.write(`${lines.join('\n')}\n`)
if (violations.length > 0) process.stderr.write(`\nVIOLATED\n${violations.join('\n')}\n`)
process.exit(violations.length > 0 ? 1 : stop.signal.aborted ? 130 : 0)
