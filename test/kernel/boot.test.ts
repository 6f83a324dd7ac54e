import { describe, expect, test } from 'vitest'
import { AsyncSeriesHook, SyncHook } from 'tapable'
import { boot, fake, informing, named, token, type Bootable, type Kernel } from '../../kernel/index.ts'
import { Fault } from '../../protocol/fault.ts'
import { envBelow, memoryLog, privateRoot, testConfig, testKernel } from '../harness/kernel.ts'
import { memoryTables } from '../harness/memory-tables.ts'
import { resolvePaths } from '../../kernel/paths.ts'
import { demo, part } from './fixtures.ts'

const caught = async (work: Promise<unknown>): Promise<unknown> =>
  await work.then(
    () => 'no failure',
    (failure: unknown) => failure,
  )

function options() {
  const paths = resolvePaths(envBelow(privateRoot()), { uid: 0, platform: 'linux', tmpdir: '/tmp' })
  return {
    log: memoryLog(),
    paths,
    config: testConfig,
    env: {},
    tables: memoryTables(),
    daemonVersion: '0',
    checked: true,
  }
}

describe('life', () => {
  test('setup, load, reconcile, ready in start order; drain before scopes close in reverse', async () => {
    const seen: string[] = []
    const telling = (name: string, more: object): Bootable =>
      part(name, {
        ...more,
        onSetup: (kernel, { scope }) => {
          seen.push(`${name} setup`)
          for (const hook of ['load', 'reconcile', 'ready', 'drain'] as const) {
            kernel.lifecycle[hook].tapPromise(name, async () => void seen.push(`${name} ${hook}`))
          }
          scope.defer('end', () => seen.push(`${name} end`))
        },
      })
    const kernel = await boot([telling('b', { needs: ['t'] }), telling('a', { provides: 't' })], {
      ...options(),
      loadTables: async () => void seen.push('tables'),
    })
    await kernel[Symbol.asyncDispose]()
    expect(seen).toEqual([
      ...['a setup', 'b setup', 'tables', 'a load', 'b load', 'a reconcile', 'b reconcile', 'a ready', 'b ready'],
      ...['a drain', 'b drain', 'b end', 'a end'],
    ])
  })

  test.each(['setup', 'load', 'reconcile', 'ready'] as const)(
    'a failing %s names plugin and hook, and what started is undone',
    async (step) => {
      const seen: string[] = []
      const first = part('first', {
        provides: 't',
        onSetup: (_, { scope }) => scope.defer('end', () => seen.push('first end')),
      })
      const second = part('second', {
        needs: ['t'],
        onSetup: (kernel) => {
          if (step === 'setup') throw new Error('broken')
          kernel.lifecycle[step].tapPromise('second', async () => {
            throw new Error('broken')
          })
        },
      })
      const failure = await caught(boot([first, second], options()))
      expect(failure).toMatchObject({ code: 'plugin_failed', message: `plugin second failed in ${step}: broken` })
      expect((failure as Fault).recover).toContain('--without second')
      expect(seen).toEqual(['first end'])
    },
  )

  test('a Fault of a plugin stays what it is', async () => {
    const fault = new Fault({ class: 'configuration', code: 'bad_key', msg: 'key x' })
    expect(await caught(boot([part('a', { onSetup: () => Promise.reject(fault) })], options()))).toBe(fault)
  })

  test('a plugin gets the services it declared, and fakes in place of others', async () => {
    const T = token<{ name: string }>('t')
    let given: unknown
    const user = part('user', {
      needs: ['t'],
      onSetup: (_, { needs }) => (given = (needs as Record<string, unknown>).t),
    })
    await testKernel([part('real', { provides: 't' }), user])
    expect(given).toEqual({ name: 'real' })
    const { running } = await testKernel([part('real', { provides: 't' }), user], [fake(T, { name: 'fake' })])
    expect(given).toEqual({ name: 'fake' })
    expect(running.kernel.surface().plugins.map((it) => it.name)).toEqual(['user'])
  })

  test('a plugin left out takes its methods with it', async () => {
    const { methods, call } = await testKernel([demo().bootable, part('other')], [], { without: ['demo'] })
    expect(methods).toEqual([])
    await expect(call('demo.nothing')).rejects.toMatchObject({ code: 'method_not_found' })
  })

  test('two plugins cannot take one attach key', async () => {
    const taking = (name: string): Bootable => ({
      contract: { name, methods: {}, events: {} },
      needs: {},
      setup: () => ({ methods: {}, streams: { attach: async () => undefined } }),
    })
    expect(await caught(boot([taking('a'), taking('b')], options()))).toMatchObject({
      code: 'plugin_failed',
      message: expect.stringContaining('attach'),
    })
  })
})

describe('requests', () => {
  async function world(onKernel?: (kernel: Kernel) => void) {
    const guard = part('guard', { onSetup: (kernel) => onKernel?.(kernel) })
    return await testKernel([demo().bootable, guard], [], { allowErrors: true })
  }

  test('admit runs before the handler, sees the method, and refuses by a Fault that reaches the caller', async () => {
    const seen: unknown[] = []
    const { call } = await world((kernel) => {
      kernel.admit.tapPromise('guard', async ({ method, spec, params, call: it }) => {
        seen.push([method, spec.effect, params, it.origin?.sessionId])
        if (params === 'no') throw new Fault({ class: 'runtime', code: 'plugin_self_target_denied', msg: 'no' })
      })
    })
    const origin = { sessionId: 's-1', daemonId: 'd-1' }
    expect(await call('demo.echo', 'yes', { origin })).toBe('yes')
    await expect(call('demo.echo', 'no')).rejects.toMatchObject({ code: 'plugin_self_target_denied' })
    expect(seen).toEqual([
      ['demo.echo', 'reads', 'yes', 's-1'],
      ['demo.echo', 'reads', 'no', undefined],
    ])
  })

  test('a broken admit tap lets nothing through', async () => {
    const { call } = await world((kernel) =>
      kernel.admit.tap('guard', () => {
        throw new Error('broken')
      }),
    )
    await expect(call('demo.echo', 1)).rejects.toMatchObject({ code: 'internal_error' })
  })

  test('checked mode catches results and faults that are not in the contract', async () => {
    const { call, log } = await world()
    await expect(call('demo.fails', 'listed')).rejects.toMatchObject({ code: 'demo_refused' })
    await expect(call('demo.fails', 'unlisted')).rejects.toMatchObject({ code: 'internal_error' })
    await expect(call('demo.fails', 'bad_result')).rejects.toMatchObject({ code: 'internal_error' })
    expect(log.filter((it) => it.level === 'error').map((it) => it.fields.unlisted)).toEqual([
      'demo_unlisted',
      undefined,
    ])
  })

  test('every request leaves one line at debug, without its params', async () => {
    const { call, log, serve } = await world()
    await call('demo.echo', 'secret')
    const raw = await (await serve()).connect()
    await raw.ask('demo.echo', 'secret')
    const lines = log.filter((it) => it.message === 'request')
    expect(lines.map((it) => it.fields)).toEqual([{ method: 'demo.echo', id: 't-demo.echo', code: 'ok', ms: 0 }])
    expect(JSON.stringify(log)).not.toContain('secret')
  })

  test('a signal given in process ends a waiting call', async () => {
    const { call } = await world()
    const stop = new AbortController()
    const waiting = caught(call('demo.wait', null, { signal: stop.signal }))
    stop.abort(new Fault({ class: 'transport', code: 'framing', msg: 'gone' }))
    expect(await waiting).toMatchObject({ code: 'framing' })
  })
})

describe('hooks', () => {
  test('an informing hook goes on behind a throwing tap and reports it by name', () => {
    const reported: string[] = []
    const hook = informing(new SyncHook<[number]>(['n']), 'ended', (failure) => reported.push(failure.message))
    const seen: number[] = []
    hook.tap('first', () => {
      throw new Error('broken')
    })
    hook.tap('second', (n) => void seen.push(n))
    hook.call(7)
    expect(seen).toEqual([7])
    expect(reported).toEqual(['first: ended: broken'])
  })

  test('an awaited hook says who failed, sync or not', async () => {
    const hook = named(new AsyncSeriesHook<[]>([]), 'plan')
    hook.tap('calm', () => undefined)
    hook.tap('loud', () => {
      throw new Error('broken')
    })
    expect(await caught(hook.promise())).toMatchObject({ plugin: 'loud', hook: 'plan', message: 'loud: plan: broken' })
  })
})
