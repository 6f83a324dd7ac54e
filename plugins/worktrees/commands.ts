/** CLI of worktrees and projects, as data. */
import type { Command } from '../../protocol/command.ts'
import { projectCommands } from './commands-projects.ts'
import { treeCommands } from './commands-trees.ts'

export const commands: readonly Command[] = [...projectCommands, ...treeCommands]
