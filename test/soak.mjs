// What the soaks share: batches of random runs of one property, with growing seeds, until something is wrong.
//   --seed S      the first batch's seed (default: a random one, printed)
//   --minutes M   stop after so long (default: never)
//   --path P      with --seed: play one failure again, as it was told
// Exits 1 with the smallest run that fails, 0 when the time was over.
import { fileURLToPath } from 'node:url'
import { parseArgs } from 'node:util'
import { runnerImport } from 'vite'

const load = async (url) =>
  (await runnerImport(fileURLToPath(url), { configFile: false, logLevel: 'error', oxc: { target: 'node20' } })).module

/**
 * Never returns. `name` is exported by the module at `url`: a class whose `batch` takes `options` and those of a soak;
 * `report` beside it puts a failure into words. `unit` is what its runs are called.
 */
export async function soak({ url, name, unit, options }) {
  const { values } = parseArgs({
    options: { seed: { type: 'string' }, minutes: { type: 'string' }, path: { type: 'string' } },
  })
  const number = (key, otherwise) => {
    const value = values[key] === undefined ? otherwise : Number(values[key])
    if (Number.isFinite(value) || value === Infinity) return value
    process.stderr.write(`--${key} ${values[key]} is no number\n`)
    process.exit(2)
  }
  let seed = number('seed', Math.floor(Math.random() * 2 ** 31))
  const endMs = performance.now() + number('minutes', Infinity) * 60_000
  const { default: build } = await load(new URL('global-setup.ts', import.meta.url))
  build()
  const { [name]: Property, report } = await load(url)
  // The timers that tests wait with keep no process alive.
  setInterval(() => undefined, 2 ** 30)
  const stop = new AbortController()
  for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP']) process.once(signal, () => stop.abort())

  const began = performance.now()
  const property = new Property()
  let code = 0
  let runs = 0
  try {
    for (; !stop.signal.aborted && performance.now() < endMs; seed++) {
      const outcome = await property.batch({
        ...options,
        seed,
        signal: stop.signal,
        failed: (run, why) =>
          process.stdout.write(`soak: seed ${seed}: ${why}\n${JSON.stringify(run)}\nit is made smaller\n`),
        ...(values.path === undefined ? {} : { path: values.path }),
        ...(endMs === Infinity ? {} : { limitMs: Math.max(1, endMs - performance.now()) }),
      })
      runs += outcome.runs
      if (outcome.failure !== undefined) {
        process.stdout.write(`soak: failed after ${runs} ${unit}\n${report(seed, outcome.failure)}\n`)
        code = 1
        break
      }
      const minutes = ((performance.now() - began) / 60_000).toFixed(1)
      const figures = outcome.figures === undefined ? '' : `; ${outcome.figures}`
      process.stdout.write(`soak: seed ${seed}, ${runs} ${unit}, ${minutes} min${figures}\n`)
      if (values.path !== undefined) break
    }
  } catch (failure) {
    process.stdout.write(`soak: seed ${seed}: ${failure.stack}\n`)
    code = 1
  } finally {
    await property[Symbol.asyncDispose]()
  }
  process.exit(stop.signal.aborted && code === 0 ? 130 : code)
}
