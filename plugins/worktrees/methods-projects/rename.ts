import type { Handler } from '../../../kernel/plugin.ts'
import type { projectMethods } from '../contract-projects.ts'
import { displayLabel } from '../label.ts'
import type { Projects } from '../projects.ts'

export const renameProject =
  (projects: Projects): Handler<(typeof projectMethods)['project.rename']> =>
  async ({ reference, name }) => {
    const label = displayLabel(name)
    return await projects.rename(projects.resolve(reference), label)
  }
