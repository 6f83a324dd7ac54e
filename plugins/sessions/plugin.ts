/** Wires the sessions plugin; what each part does is said there. */
import { AsyncSeriesHook, AsyncSeriesWaterfallHook, SyncHook } from 'tapable'
import { informing, named } from '../../kernel/hooks.ts'
import { definePlugin, type Kernel } from '../../kernel/plugin.ts'
import { join } from 'node:path'
import { chooseSupervisor, lineMode, pinnedProcesses } from '../../platform/index.ts'
import type { Processes } from '../../platform/processes.ts'
import type { Supervisor } from '../../platform/supervisor.ts'
import { within } from '../../platform/timing.ts'
import { sessionLogName } from '../../protocol/worker/files.ts'
import { Adoption } from './adopt.ts'
import { Sessions, type LaunchPlan, type Leaving, type Preparation, type SessionHooks } from './api.ts'
import { Attachments } from './attach.ts'
import contract from './contract.ts'
import { guardOrigin } from './guard.ts'
import type { Host } from './host.ts'
import { loginPath } from './login-path.ts'
import { attach } from './methods/attach.ts'
import { detach } from './methods/detach.ts'
import { input } from './methods/input.ts'
import { inspect } from './methods/inspect.ts'
import { list } from './methods/list.ts'
import { newSession } from './methods/new.ts'
import { output } from './methods/output.ts'
import { read } from './methods/read.ts'
import { remove, removeAcceptingUnconfirmed } from './methods/remove.ts'
import { rename } from './methods/rename.ts'
import { resize } from './methods/resize.ts'
import { runtimeInventory } from './methods/runtime-inventory.ts'
import { screen } from './methods/screen.ts'
import { setMetadata } from './methods/set-metadata.ts'
import { stop } from './methods/stop.ts'
import { Waiters } from './observe.ts'
import type { SessionInfo } from './types.ts'
import { sessionTable } from './record.ts'
import { Registry, type Publish } from './registry.ts'
import { sessionService } from './service.ts'
import { Supply, type WorkerProgram } from './supply.ts'
import { workerProgram } from './worker-program.ts'

/** What this plugin takes from outside the kernel. */
export interface SessionEdges {
  readonly worker: (this: void, env: Kernel['env']) => WorkerProgram
  readonly processes: Processes
  readonly supervisor: (this: void, kernel: Kernel, processes: Processes) => Supervisor | Promise<Supervisor>
}

/** A stopping daemon gives transactions in flight this long; what is left is finished by the next start. */
const DRAIN_MS = 5_000

const defaults: SessionEdges = {
  worker: workerProgram,
  processes: pinnedProcesses,
  supervisor: ({ paths, clock, config, log, env }, processes) =>
    chooseSupervisor({
      wanted: config.supervisor,
      env,
      state: paths.state,
      runtime: paths.runtime,
      processes,
      clock,
      workerLog: (id) => join(paths.logs, sessionLogName(id)),
      warn: (problem) => log.warn({ problem }, 'supervision of workers'),
    }),
}

export const sessionsPlugin = (given: Partial<SessionEdges> = {}) =>
  definePlugin({
    contract,
    needs: {},
    provides: Sessions,
    async setup(context) {
      const { kernel, scope, log } = context
      const publish: Publish = (event, payload) => context.publish(event, payload)
      const edges = { ...defaults, ...given }
      const { clock, config, paths, env, lifecycle } = kernel
      const supervisor = scope.own('supervisor', await edges.supervisor(kernel, edges.processes))
      const inform = <A extends unknown[]>(hook: SyncHook<A>, name: string): SyncHook<A> =>
        informing(hook, name, (failure) => log.error({ err: failure }, 'a hook failed'))
      const hooks: SessionHooks = Object.freeze({
        plan: new AsyncSeriesWaterfallHook<[LaunchPlan]>(['plan']),
        prepare: named(new AsyncSeriesHook<[Preparation]>(['preparation']), 'prepare'),
        created: inform(new SyncHook<[SessionInfo]>(['session']), 'created'),
        leaving: named(new AsyncSeriesHook<[Leaving]>(['leaving']), 'leaving'),
        removed: inform(new SyncHook<[SessionInfo]>(['session']), 'removed'),
        changed: inform(new SyncHook<[SessionInfo, SessionInfo]>(['now', 'before']), 'changed'),
        ended: inform(new SyncHook<[SessionInfo]>(['session']), 'ended'),
      })
      const registry = new Registry({
        changed: (now, before) => hooks.changed.call(now, before),
        removed: (session) => hooks.removed.call(session),
        table: kernel.tables.table(sessionTable),
        publish,
        clock,
        log,
        scope: scope.child('sessions'),
      })
      const host: Host = {
        kernel,
        log,
        scope,
        publish,
        registry,
        supervisor,
        processes: edges.processes,
        hooks,
        inventory: [],
        retained: [],
        inFlight: new Set(),
        waiters: new Waiters(),
        activity: undefined,
        lineMode,
        attachments: new Attachments(scope.child('attach'), publish),
        supply: new Supply({
          supervisor,
          program: edges.worker(env),
          paths,
          daemonId: kernel.daemonId,
          clock,
          log,
          scope: scope.child('workers'),
          spares: config.workers.spares,
        }),
        programs: {
          configured: config.environment.searchPath,
          path: env['PATH'],
          login: loginPath(env, clock, scope.signal, (problem) =>
            log.warn({ problem }, 'the PATH of the login shell is not known'),
          ),
        },
      }
      const adoption = new Adoption(host)
      lifecycle.load.tap('sessions', () => registry.load())
      lifecycle.reconcile.tapPromise('sessions', () => adoption.reconcile())
      lifecycle.ready.tap('sessions', () => {
        adoption.announce()
        host.supply.refill(0)
      })
      lifecycle.drain.tapPromise('sessions', () => drain(host))
      kernel.admit.tap('sessions', (request) => guardOrigin(registry, kernel.daemonId, request))
      scope.own(
        'doctor',
        kernel.diagnostics.add({
          name: 'supervisor',
          required: true,
          run: () => supervisor.diagnose?.() ?? { status: 'ok', detail: supervisor.kind },
        }),
      )
      return {
        service: sessionService(host, adoption.examine),
        methods: {
          'session.new': newSession(host, adoption.examine),
          'session.list': list(registry, () => host.activity?.glance()),
          'session.inspect': inspect(registry, (id) => host.activity?.glance(id)),
          'session.stop': stop(host, adoption.settle),
          'session.remove': remove(host, adoption.examine),
          'session.remove_accepting_unconfirmed': removeAcceptingUnconfirmed(host, adoption.examine),
          'session.rename': rename(registry),
          'session.set_metadata': setMetadata(registry),
          'session.resize': resize(host),
          'session.attach': attach(host),
          'session.detach': detach(host.attachments),
          'session.input': input(host),
          'session.screen': screen(registry),
          'session.read': read(registry),
          'session.output': output(registry, host.waiters),
          'session.runtime_inventory': runtimeInventory(host),
        },
        streams: { attach: (id, stream) => host.attachments.redeem(id, stream) },
      }
    },
  })

async function drain(host: Host): Promise<void> {
  if (host.inFlight.size === 0) return
  await within<unknown>(host.kernel.clock, DRAIN_MS, Promise.allSettled([...host.inFlight]), () => undefined)
}

export default sessionsPlugin()
