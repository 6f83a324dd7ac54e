import type { Handler } from '../../../kernel/plugin.ts'
import type { projectMethods } from '../contract-projects.ts'
import type { Projects } from '../projects.ts'

export const listProjects =
  (projects: Projects): Handler<(typeof projectMethods)['project.list']> =>
  (params) =>
    projects.list(params?.filters)
