import type { Handler } from '../../../kernel/plugin.ts'
import { listActions, resolveAction } from '../actions.ts'
import { layersOf } from '../config-layers.ts'
import type { projectMethods } from '../contract-projects.ts'
import { readPrompt } from '../prompts.ts'
import type { Projects } from '../projects.ts'

export const projectPrompt =
  (projects: Projects, config: string): Handler<(typeof projectMethods)['project.prompt']> =>
  async ({ reference, name }) => {
    const { text, layer } = await readPrompt(layersOf(projects.resolve(reference), config), name)
    return { name, content: text, layer }
  }

export const projectAction =
  (projects: Projects, config: string): Handler<(typeof projectMethods)['project.action']> =>
  ({ reference, name }) =>
    resolveAction(layersOf(projects.resolve(reference), config), name)

export const projectActions =
  (projects: Projects, config: string): Handler<(typeof projectMethods)['project.actions']> =>
  async ({ reference }) => ({ actions: await listActions(layersOf(projects.resolve(reference), config)) })
