import type { Handler, Kernel } from '../../../kernel/plugin.ts'
import { capabilities } from '../capabilities.ts'
import type contract from '../contract.ts'

/** Read from the contracts at each call: complete once every plugin is set up. */
export const readCapabilities =
  (
    kernel: Pick<Kernel, 'surface' | 'daemonId' | 'daemonVersion'>,
  ): Handler<(typeof contract.methods)['daemon.capabilities']> =>
  () =>
    capabilities(kernel.surface(), kernel)
