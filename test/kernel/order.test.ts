import { describe, expect, test } from 'vitest'
import { startOrder, without, type Bootable } from '../../kernel/index.ts'
import { part } from './fixtures.ts'

const names = (plugins: readonly Bootable[]): string[] => plugins.map((it) => it.contract.name)
const caught = (work: () => unknown): unknown => {
  try {
    return work()
  } catch (failure) {
    return failure
  }
}

describe('start order', () => {
  const orders: [string, Bootable[], string[]][] = [
    ['nothing', [], []],
    ['list order without needs', [part('b'), part('a')], ['b', 'a']],
    ['a provider listed later', [part('a', { needs: ['t'] }), part('b', { provides: 't' })], ['b', 'a']],
    [
      'a chain and a diamond',
      [
        part('d', { needs: ['b', 'c'] }),
        part('c', { provides: 'c', needs: ['a'] }),
        part('b', { provides: 'b', needs: ['a'] }),
        part('a', { provides: 'a' }),
      ],
      ['a', 'b', 'c', 'd'],
    ],
  ]
  test.each(orders)('%s', (_, plugins, order) => expect(names(startOrder(plugins))).toEqual(order))

  const impossible: [string, Bootable[], string, RegExp][] = [
    [
      'a missing need names both sides',
      [part('a', { needs: ['t'] })],
      'plugin_need_missing',
      /plugin a needs t, which no plugin in this build provides/,
    ],
    [
      'a cycle',
      [part('a', { provides: 'a', needs: ['b'] }), part('b', { provides: 'b', needs: ['a'] })],
      'plugin_cycle',
      /a -> b -> a/,
    ],
    ['itself', [part('a', { provides: 'a', needs: ['a'] })], 'plugin_cycle', /a -> a/],
    ['one name twice', [part('a'), part('a')], 'plugin_duplicate', /the name a/],
    [
      'one service twice',
      [part('a', { provides: 't' }), part('b', { provides: 't' })],
      'plugin_duplicate',
      /service t .*a.* b/,
    ],
  ]
  test.each(impossible)('%s', (_, plugins, code, text) => {
    const failure = caught(() => startOrder(plugins)) as Error
    expect(failure).toMatchObject({ code, class: 'configuration' })
    expect(failure.message).toMatch(text)
  })

  test('a given service satisfies a need and replaces its plugin', () => {
    expect(names(startOrder([part('a', { needs: ['t'] }), part('b', { provides: 't' })], ['t']))).toEqual(['a'])
    expect(names(startOrder([part('a', { needs: ['t'] })], ['t']))).toEqual(['a'])
  })
})

describe('leaving out', () => {
  const list = [part('a', { provides: 't' }), part('b', { needs: ['t'] }), part('c')]
  test('by name', () => expect(names(without(list, ['c']))).toEqual(['a', 'b']))
  test('together with what needs it', () => expect(names(without(list, ['a', 'b']))).toEqual(['c']))
  test('not what another one needs, and both are named', () => {
    const failure = caught(() => without(list, ['a'])) as Error
    expect(failure).toMatchObject({ code: 'plugin_need_missing', recover: 'leave b out too, or keep a' })
    expect(failure.message).toMatch(/plugin b needs t of plugin a/)
  })
  test('nothing unknown', () =>
    expect(caught(() => without(list, ['x']))).toMatchObject({
      code: 'plugin_unknown',
      recover: 'use names of a, b, c',
    }))
})
