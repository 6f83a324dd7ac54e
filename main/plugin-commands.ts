/** The CLI commands of the plugins of this build, as data. */
import { commands as detection } from '../plugins/detection/commands.ts'
import { commands as notifications } from '../plugins/notifications/commands.ts'
import { commands as packages } from '../plugins/packages/commands.ts'
import { commands as retention } from '../plugins/retention/commands.ts'
import { commands as sessions } from '../plugins/sessions/commands.ts'
import { commands as system } from '../plugins/system/commands.ts'
import { commands as waits } from '../plugins/waits/commands.ts'
import { commands as worktrees } from '../plugins/worktrees/commands.ts'
import type { Command } from '../protocol/command.ts'

/** Of one session. */
export const sessionCommands: readonly Command[] = [...sessions, ...detection]
export const otherCommands: readonly Command[] = [
  ...system,
  ...packages,
  ...notifications,
  ...waits,
  ...worktrees,
  ...retention,
]
export const pluginCommands: readonly Command[] = [...sessionCommands, ...otherCommands]
