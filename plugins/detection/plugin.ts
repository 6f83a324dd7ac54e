/** Detection: what the agents in the sessions do, from their terminals; what each part decides is said there. */
import { definePlugin } from '../../kernel/plugin.ts'
import { processes } from '../../platform/index.ts'
import type { Processes } from '../../platform/processes.ts'
import { Runtimes } from '../packages/api.ts'
import { Sessions } from '../sessions/api.ts'
import { Detection } from './api.ts'
import contract from './contract.ts'
import { activityGate } from './gate.ts'
import { Manifests } from './manifests.ts'
import { detection } from './methods/detection.ts'
import { explain } from './methods/explain.ts'
import { Trackers } from './trackers.ts'

export const detectionPlugin = (facts: Processes = processes) =>
  definePlugin({
    contract,
    needs: { sessions: Sessions, runtimes: Runtimes },
    provides: Detection,
    setup(context) {
      const { kernel, needs, scope, log } = context
      const { sessions, runtimes } = needs
      const { clock, daemonId, lifecycle } = kernel
      const manifests = new Manifests(runtimes, log)
      const trackers = new Trackers({
        sessions,
        runtimes,
        manifests,
        facts,
        clock,
        log,
        scope: scope.child('trackers'),
        epoch: daemonId,
        event: (id, { activity, source, runtime, epoch, revision }) =>
          context.publish('agent_state', {
            session_id: id,
            activity,
            source,
            runtime,
            activity_epoch: epoch,
            revision: String(revision),
          }),
      })
      // A launch whose manifest cannot be read would run unseen: it is refused while nothing has been made.
      sessions.hooks.plan.tap('detection', (plan) => {
        if (plan.agentBase !== undefined) manifests.check(plan.agent, plan.agentBase)
        return plan
      })
      lifecycle.load.tap('detection', () => trackers.forgetStored())
      lifecycle.ready.tap('detection', () => trackers.open())
      sessions.hooks.created.tap('detection', ({ id }) => trackers.consider(id))
      sessions.hooks.changed.tap('detection', ({ id }) => trackers.consider(id))
      sessions.hooks.ended.tap('detection', ({ id }) => trackers.consider(id))
      sessions.hooks.removed.tap('detection', ({ id }) => trackers.consider(id))
      scope.own(
        'gate',
        sessions.provideActivity(activityGate({ sessions, trackers, manifests, clock, signal: scope.signal })),
      )
      scope.own(
        'doctor',
        kernel.diagnostics.add({
          name: 'detection_manifests',
          required: false,
          run: () => {
            const problems = manifests.problems()
            return problems.length === 0
              ? { status: 'ok', detail: 'every manifest in use can be read' }
              : { status: 'warn', detail: `${problems.join('; ')}; correct the file` }
          },
        }),
      )
      return {
        service: {
          hooks: trackers.hooks,
          current: (id: string) => trackers.current(id),
          glance: (id: string) => trackers.glance(id),
        },
        methods: {
          'session.explain': explain({ sessions, trackers, clock }),
          'session.detection': detection(sessions, manifests),
        },
      }
    },
  })

export default detectionPlugin()
