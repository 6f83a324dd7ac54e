/** Wires projects, prompts and actions, and the context of sessions; plugin.ts calls it. */
import type { Handler, Kernel } from '../../kernel/plugin.ts'
import type { Log } from '../../kernel/log.ts'
import type { Scope } from '../../kernel/scope.ts'
import type { Git } from './git/run.ts'
import { messageOf } from '../../protocol/fault.ts'
import type { SessionService } from '../sessions/api.ts'
import { Contexts, isLive } from './context.ts'
import { isInside } from './copy.ts'
import type { projectMethods } from './contract-projects.ts'
import { addProject } from './methods-projects/add.ts'
import { listProjects } from './methods-projects/list.ts'
import { projectAction, projectActions, projectPrompt } from './methods-projects/recipes.ts'
import { removeProject } from './methods-projects/remove.ts'
import { renameProject } from './methods-projects/rename.ts'
import { showProject } from './methods-projects/show.ts'
import { Places } from './places.ts'
import type { ProjectDoor } from './projects-door.ts'
import { Projects, projectTable } from './projects.ts'
import type { TreeDoor } from './trees-door.ts'

export interface ProjectSetup {
  readonly kernel: Kernel
  readonly sessions: SessionService
  readonly git: Git
  /** Called when used, never during the setup. */
  readonly trees: TreeDoor
  readonly scope: Scope
  readonly log: Log
}

export type ProjectHandlers = { [K in keyof typeof projectMethods]: Handler<(typeof projectMethods)[K]> }

export function setupProjects({ kernel, sessions, git, trees, scope, log }: ProjectSetup): {
  readonly door: ProjectDoor
  readonly places: Places
  readonly methods: ProjectHandlers
} {
  const { clock, lifecycle, paths, tables } = kernel
  const projects = new Projects({
    table: tables.table(projectTable),
    git,
    clock,
    log,
    relabelled: (id, label) => contexts.relabel(id, label),
  })
  // Released after what starts looks.
  let idle: () => Promise<void> = () => Promise.resolve()
  scope.defer('contexts', () => idle())
  const places = new Places(git)
  const contexts: Contexts = new Contexts({
    sessions,
    projects,
    places,
    trees,
    scope: scope.child('contexts'),
    clock,
    log,
  })
  idle = () => contexts.idle()
  sessions.hooks.created.tap('projects', (session) => contexts.look(session.id, { starts: session.cwd }))
  sessions.hooks.changed.tap('projects', (now, before) => {
    const moved = now.cwd !== before.cwd
    // A turn or a program that ended is when branches change; a branch changed in between is told by a watch.
    if (moved || now.activity !== before.activity || isLive(now) !== isLive(before)) contexts.look(now.id, { moved })
  })
  sessions.hooks.removed.tap('projects', (session) => contexts.leave(session.id))
  lifecycle.ready.tap('projects', () => {
    for (const session of sessions.list()) if (isLive(session)) contexts.look(session.id, {})
  })
  return {
    places,
    door: {
      resolve: (reference) => {
        const { id, label, repo_root, default_base_branch } = projects.resolve(reference)
        return { id, label, repoRoot: repo_root, defaultBaseBranch: default_base_branch }
      },
      ensure: async (repository) => {
        try {
          return await projects.ensure(repository, scope.signal)
        } catch (failure) {
          log.warn({ repo: repository.commonDir, problem: messageOf(failure) }, 'a project could not be registered')
          return undefined
        }
      },
      left: (path) => {
        for (const it of sessions.list()) if (isInside(path, it.cwd)) contexts.look(it.id, {})
      },
      repositories: () => projects.list().map((it) => ({ commonDir: it.git_common_dir, repoRoot: it.repo_root })),
    },
    methods: {
      'project.list': listProjects(projects),
      'project.add': addProject(projects, git),
      'project.show': showProject(projects, git, trees),
      'project.rename': renameProject(projects),
      'project.remove': removeProject(projects, trees),
      'project.prompt': projectPrompt(projects, paths.config),
      'project.action': projectAction(projects, paths.config),
      'project.actions': projectActions(projects, paths.config),
    },
  }
}
