/** What clients do not read is bounded over all of them. */
import { expect, onTestFinished, test } from 'vitest'
import { manualClock } from '../../kernel/index.ts'
import { Scope } from '../../kernel/scope.ts'
import { Unsent } from '../../kernel/server/unsent.ts'

test('above the bound requests wait, and the oldest that took nothing go until there is room', async () => {
  const clock = manualClock()
  const scope = new Scope('test', clock)
  onTestFinished(() => scope.close())
  const gone: string[] = []
  const client = (name: string) => ({ destroy: () => void gone.push(name) })
  const [a, b, c] = [client('a'), client('b'), client('c')]
  const unsent = new Unsent<{ destroy(): void }>({ maxBytes: 100, stallMs: 1_000, clock, scope })
  unsent.set(a, 60)
  expect(unsent.room()).toBeUndefined()
  clock.advance(500)
  unsent.set(b, 60)
  clock.advance(100)
  unsent.set(c, 30)
  let went = false
  void unsent.room()?.then(() => (went = true))
  clock.advance(399)
  await Promise.resolve()
  expect([gone, went]).toEqual([[], false])
  clock.advance(1)
  await Promise.resolve()
  expect([gone, went, unsent.bytes]).toEqual([['a'], true, 90])
  clock.advance(10_000)
  expect(gone).toEqual(['a'])
  unsent.set(b, 0)
  unsent.set(c, 0)
  expect(unsent.bytes).toBe(0)
})
