/** Small plugins for kernel tests. */
import * as v from 'valibot'
import { definePlugin, token, type Bootable, type Call, type Kernel, type SetupContext } from '../../kernel/index.ts'
import { contract, type Contract } from '../../protocol/contract.ts'
import { catalogue } from '../../protocol/fault.ts'
import { NoParams } from '../../protocol/scalars.ts'

const demoFaults = catalogue({
  demo_refused: { class: 'runtime', say: (d: { why: string }) => `refused: ${d.why}`, recover: 'ask nicely' },
  demo_unlisted: { class: 'runtime', say: (_: Record<string, never>) => 'not in the contract' },
})

const reads = { effect: 'reads', faults: [] } as const

const demoContract = contract({
  name: 'demo',
  methods: {
    'demo.echo': { about: 'Answers its params.', params: v.unknown(), result: v.unknown(), ...reads },
    'demo.strict': {
      about: 'Typed params.',
      params: v.strictObject({ text: v.string(), size: v.optional(v.pipe(v.number(), v.integer(), v.maxValue(9)), 1) }),
      result: v.object({ text: v.string(), size: v.number() }),
      ...reads,
    },
    'demo.nothing': { about: 'No params.', params: NoParams, result: v.null_(), ...reads },
    'demo.fails': {
      about: 'Throws what it is told.',
      params: v.picklist(['listed', 'unlisted', 'error', 'bad_result']),
      result: v.string(),
      effect: 'reads',
      faults: [demoFaults.demo_refused],
    },
    'demo.wait': { about: 'Waits until it is given up.', params: v.unknown(), result: v.unknown(), ...reads },
    'demo.stuck': { about: 'Never answers and ignores its signal.', params: NoParams, result: v.null_(), ...reads },
    'demo.big': { about: 'A result of that many characters.', params: v.number(), result: v.string(), ...reads },
    'demo.newer': { about: 'Only on protocol 4.', params: NoParams, result: v.string(), since: 4, ...reads },
    'demo.local': { about: 'Local only.', params: NoParams, result: v.string(), localOnly: true, ...reads },
    'demo.emit': {
      about: 'Publishes events.',
      params: v.object({ event: v.string(), payload: v.any(), times: v.optional(v.number(), 1) }),
      result: v.null_(),
      ...reads,
    },
    'demo.who': { about: 'The caller.', params: NoParams, result: v.any(), ...reads },
  },
  events: {
    demo_event: { about: 'Anything.', payload: v.record(v.string(), v.any()) },
    session_updated: { about: 'A session.', payload: v.object({ session: v.any() }) },
    background_state: { about: 'Protocol 4.', payload: v.object({ session_id: v.string() }), since: 4 },
  },
})

export interface Demo {
  readonly bootable: Bootable
  /** Calls of demo.wait that ended, by the code of the reason. */
  readonly waits: string[]
  readonly started: string[]
  context(): SetupContext<typeof demoContract, Record<never, never>>
  readonly streams: { value: string; head: string }[]
}

export function demo(onCall?: (call: Call) => void): Demo {
  const waits: string[] = []
  const started: string[] = []
  const streams: { value: string; head: string }[] = []
  let given: SetupContext<typeof demoContract, Record<never, never>> | undefined
  const bootable = definePlugin({
    contract: demoContract,
    needs: {},
    setup(context) {
      given = context
      return {
        methods: {
          'demo.echo': (params) => params,
          'demo.strict': (params) => params,
          'demo.nothing': () => null,
          'demo.fails': (how) => {
            if (how === 'listed') throw demoFaults.demo_refused({ why: 'told to' })
            if (how === 'unlisted') throw demoFaults.demo_unlisted({})
            if (how === 'error') throw new Error('secret detail')
            return 7 as unknown as string
          },
          'demo.wait': async (params, call) => {
            onCall?.(call)
            started.push(call.requestId)
            await new Promise((resolve) => call.signal.addEventListener('abort', resolve, { once: true }))
            waits.push((call.signal.reason as { code: string }).code)
            throw call.signal.reason
          },
          'demo.stuck': async (_, call) => {
            started.push(call.requestId)
            return await new Promise<null>(() => undefined)
          },
          'demo.big': (size) => 'x'.repeat(size),
          'demo.newer': () => 'new',
          'demo.local': () => 'local',
          'demo.emit': ({ event, payload, times }) => {
            for (let n = 0; n < times; n++) context.publish(event as 'demo_event', payload as Record<string, unknown>)
            return null
          },
          'demo.who': (_, call) => ({
            version: call.version,
            local: call.local,
            uid: call.peer()?.uid,
            pid: call.peer()?.pid,
            origin: call.origin ?? null,
          }),
        },
        streams: {
          attach: async (value, stream) => {
            if (value === 'no') throw demoFaults.demo_refused({ why: 'no such stream' })
            if (value === 'crash') throw new Error('secret detail')
            streams.push({ value, head: stream.head.toString() })
            stream.socket.on('error', () => undefined)
            context.scope.defer('stream', () => stream.socket.destroy())
            stream.socket.write(`raw:${value}:${stream.head.toString()}`)
            stream.socket.on('data', (bytes) => stream.socket.write(bytes))
            stream.socket.on('end', () => stream.socket.end())
            stream.socket.resume()
          },
        },
      }
    },
  })
  return {
    bootable,
    waits,
    started,
    streams,
    context: () => given as SetupContext<typeof demoContract, Record<never, never>>,
  }
}

/** A plugin without a wire surface: `provides` and `needs` are token ids. */
export function part(
  name: string,
  {
    provides,
    needs = [],
    onSetup,
  }: {
    provides?: string
    needs?: string[]
    onSetup?: (kernel: Kernel, context: SetupContext<Contract, never>) => unknown
  } = {},
): Bootable {
  return {
    contract: { name, methods: {}, events: {} },
    needs: Object.fromEntries(needs.map((need) => [need, token(need)])),
    ...(provides === undefined ? {} : { provides: token(provides) }),
    async setup(context: SetupContext<Contract, never>) {
      await onSetup?.(context.kernel, context)
      return { service: { name }, methods: {} }
    },
  }
}
