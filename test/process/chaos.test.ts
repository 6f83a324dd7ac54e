/** The short form of `npm run chaos`: the daemon is killed a dozen times under load. */
import { expect, test } from 'vitest'
import { chaos } from '../chaos/chaos.ts'

test('daemons are killed at random: no output is lost, no input is lost or doubled, every session lives on', async () => {
  const { lines, violations } = await chaos({
    kills: 12,
    checkEvery: 6,
    seed: Number(process.env['POHUNEK_CHAOS_SEED'] ?? Math.floor(Math.random() * 2 ** 31)),
    say: (line) => console.log(line),
  })
  console.log(lines.join('\n'))
  expect(violations).toEqual([])
}, 240_000)
