import { plugins } from '../../main/plugins.ts'

/** For `--without`: every plugin but system, which needs none. */
export const ALL_BUT_SYSTEM = plugins
  .map((it) => it.contract.name)
  .filter((it) => it !== 'system')
  .join(',')
