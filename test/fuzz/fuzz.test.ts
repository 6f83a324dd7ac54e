/** The short form of `npm run soak`: a fixed sequence of plans. */
import { expect, test } from 'vitest'
import { Fuzzer, report } from './fuzz.ts'

const SEED = 20_261_130
const RUNS = 250
const LIMIT_MS = 20_000

test('random and damaged input on every socket: refused by the contract, nobody else notices, nothing is kept', async () => {
  await using fuzzer = new Fuzzer()
  const { failure, runs, figures } = await fuzzer.batch({ seed: SEED, runs: RUNS, limitMs: LIMIT_MS })
  console.log(`${runs} plans; ${figures}`)
  expect(failure === undefined ? '' : report(SEED, failure)).toBe('')
  expect(runs).toBeGreaterThan(20)
}, 120_000)
