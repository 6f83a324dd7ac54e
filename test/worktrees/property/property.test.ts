/** No sequence of work in managed trees, wishes of the manager and kills of the daemon loses anything. */
import { onTestFinished, test } from 'vitest'
import { report, Woodland } from './property.ts'

const SEED = 20_260_101

test('nothing is lost, and records, git and folders agree', { timeout: 300_000 }, async () => {
  const woodland = new Woodland()
  onTestFinished(() => woodland[Symbol.asyncDispose]())
  const { failure } = await woodland.batch({ seed: SEED, runs: 6, length: 30, limitMs: 20_000, shrinkMs: 120_000 })
  if (failure !== undefined) throw new Error(report(SEED, failure))
})
