// `npm run soak:worktrees`: random work in managed trees, and a manager that is killed, until something is lost.
//   --seed S      the first batch's seed (default: a random one, printed)
//   --minutes M   stop after so long (default: never)
//   --path P      with --seed: play one failure again, as it was told
// Exits 1 with the smallest run that fails, 0 when the time was over.
import { fileURLToPath } from 'node:url'
import { parseArgs } from 'node:util'
import { runnerImport } from 'vite'

const { values } = parseArgs({
  options: { seed: { type: 'string' }, minutes: { type: 'string' }, path: { type: 'string' } },
})
const number = (name, otherwise) => {
  const value = values[name] === undefined ? otherwise : Number(values[name])
  if (Number.isFinite(value) || value === Infinity) return value
  process.stderr.write(`--${name} ${values[name]} is no number\n`)
  process.exit(2)
}
const load = async (path) => {
  const file = fileURLToPath(new URL(path, import.meta.url))
  return (await runnerImport(file, { configFile: false, logLevel: 'error', oxc: { target: 'node20' } })).module
}

const BATCH = 10
const LENGTH = 60
let seed = number('seed', Math.floor(Math.random() * 2 ** 31))
const endMs = performance.now() + number('minutes', Infinity) * 60_000
const { default: build } = await load('../../global-setup.ts')
build()
const { Woodland, report } = await load('property.ts')
// The timers that tests wait with keep no process alive.
setInterval(() => undefined, 2 ** 30)
const stop = new AbortController()
for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP']) process.once(signal, () => stop.abort())

const began = performance.now()
const woodland = new Woodland()
let code = 0
let runs = 0
try {
  for (; !stop.signal.aborted && performance.now() < endMs; seed++) {
    const outcome = await woodland.batch({
      seed,
      runs: BATCH,
      length: LENGTH,
      signal: stop.signal,
      failed: (steps, why) =>
        process.stdout.write(`soak: seed ${seed}: ${why}\n${JSON.stringify(steps)}\nit is made smaller\n`),
      ...(values.path === undefined ? {} : { path: values.path }),
      ...(endMs === Infinity ? {} : { limitMs: Math.max(1, endMs - performance.now()) }),
    })
    runs += outcome.runs
    if (outcome.failure !== undefined) {
      process.stdout.write(`soak: failed after ${runs} runs\n${report(seed, outcome.failure)}\n`)
      code = 1
      break
    }
    const minutes = ((performance.now() - began) / 60_000).toFixed(1)
    process.stdout.write(`soak: seed ${seed}, ${runs} runs, ${minutes} min\n`)
    if (values.path !== undefined) break
  }
} catch (failure) {
  process.stdout.write(`soak: seed ${seed}: ${failure.stack}\n`)
  code = 1
} finally {
  await woodland[Symbol.asyncDispose]()
}
process.exit(stop.signal.aborted && code === 0 ? 130 : code)
