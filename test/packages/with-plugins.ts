/** host.inspect of a kernel that serves the given plugins beside packages, without sessions and with an empty PATH. */
import { AsyncSeriesWaterfallHook } from 'tapable'
import { fake, type Bootable } from '../../kernel/index.ts'
import packages from '../../plugins/packages/plugin.ts'
import { Sessions, type LaunchPlan, type SessionService } from '../../plugins/sessions/api.ts'
import { envBelow, privateRoot, testKernel } from '../harness/kernel.ts'

export async function boot(plugins: readonly Bootable[]): Promise<unknown> {
  const root = privateRoot()
  const sessions = {
    hooks: { plan: new AsyncSeriesWaterfallHook<[LaunchPlan]>(['plan']) },
    get: () => undefined,
    findProgram: () => Promise.reject(new Error('nothing is found')),
  } as unknown as SessionService
  const it = await testKernel([packages, ...plugins], [fake(Sessions, sessions)], {
    root,
    env: { ...envBelow(root), PATH: '' },
  })
  return await it.call('host.inspect')
}
