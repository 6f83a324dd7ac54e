/** What must not compile. The type check of the repository fails when one of these lines is accepted. */
import * as v from 'valibot'
import { expect, test } from 'vitest'
import { definePlugin, token } from '../../kernel/index.ts'
import { contract } from '../../protocol/contract.ts'
import { catalogue } from '../../protocol/fault.ts'
import { NoParams } from '../../protocol/scalars.ts'

const methods = contract({
  name: 'typed',
  methods: {
    'typed.one': { about: '', params: v.object({ id: v.string() }), result: v.number(), effect: 'reads', faults: [] },
    'typed.two': { about: '', params: NoParams, result: v.null_(), effect: 'reads', faults: [] },
  },
  events: { typed_event: { about: '', payload: v.object({ n: v.number() }) } },
})
const Counter = token<{ count(): number }>('counter')
const two = (): null => null

test('handlers, needs, events and services are typed by what is declared', () => {
  const declared = [
    definePlugin({
      contract: methods,
      needs: { counter: Counter },
      setup: (context) => {
        const { needs } = context
        // @ts-expect-error an undeclared need
        void needs.other
        // @ts-expect-error not what the token carries
        const wrong = (): string => needs.counter.count()
        // @ts-expect-error not an event of this contract
        const foreign = (): void => context.publish('session_created', {})
        // @ts-expect-error not the payload of this event
        const misshapen = (): void => context.publish('typed_event', { n: 'one' })
        void [wrong, foreign, misshapen]
        return { methods: { 'typed.one': ({ id }) => id.length, 'typed.two': two } }
      },
    }),
    definePlugin({
      contract: methods,
      needs: {},
      // @ts-expect-error a missing handler
      setup: () => ({ methods: { 'typed.two': two } }),
    }),
    definePlugin({
      contract: methods,
      needs: {},
      // @ts-expect-error a handler that answers something else
      setup: () => ({ methods: { 'typed.one': ({ id }) => id, 'typed.two': two } }),
    }),
    definePlugin({
      contract: methods,
      needs: {},
      provides: Counter,
      // @ts-expect-error a service of another shape
      setup: () => ({ service: { count: () => 'many' }, methods: { 'typed.one': () => 1, 'typed.two': two } }),
    }),
  ]
  expect(declared).toHaveLength(4)
})

test('a fault is made of the data its message needs', () => {
  const faults = catalogue({
    typed_missing: { class: 'runtime', say: (d: { id: string }) => `no ${d.id}`, recover: (d: { id: string }) => d.id },
  })
  const refused = [
    // @ts-expect-error the data is missing a key
    (): unknown => faults.typed_missing({}),
    // @ts-expect-error a value of another type
    (): unknown => faults.typed_missing({ id: 1 }),
    // @ts-expect-error not in the catalogue
    (): unknown => faults.typed_other,
  ]
  expect(refused).toHaveLength(3)
  expect(faults.typed_missing({ id: 'x' }).toBody()).toEqual({
    class: 'runtime',
    code: 'typed_missing',
    msg: 'no x',
    recover: 'x',
  })
})
