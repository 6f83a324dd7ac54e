/** The plugins of this build. A feature is left out by leaving its line out, or for one run by `--without`. */
import type { Bootable } from '../kernel/index.ts'
import detection from '../plugins/detection/plugin.ts'
import notifications from '../plugins/notifications/plugin.ts'
import packages from '../plugins/packages/plugin.ts'
import retention from '../plugins/retention/plugin.ts'
import sessions from '../plugins/sessions/plugin.ts'
import system from '../plugins/system/plugin.ts'
import waits from '../plugins/waits/plugin.ts'
import worktrees from '../plugins/worktrees/plugin.ts'

export const plugins = [
  system,
  packages,
  sessions,
  detection,
  notifications,
  waits,
  worktrees,
  retention,
] as const satisfies readonly Bootable[]
