/** Wires projects and worktrees; what each part does is said there. */
import { definePlugin } from '../../kernel/plugin.ts'
import { Sessions } from '../sessions/api.ts'
import { Worktrees } from './api.ts'
import { bindingTable } from './binding.ts'
import contract from './contract.ts'
import { Git } from './git/run.ts'
import { diff } from './methods/diff.ts'
import { rescueList, rescueRestore } from './methods/rescue.ts'
import { worktreeList } from './methods/worktree-list.ts'
import { worktreeRemove } from './methods/worktree-remove.ts'
import { Scripts } from './scripts.ts'
import { SessionScripts } from './session-scripts.ts'
import { setupProjects } from './setup-projects.ts'
import { Trees } from './trees.ts'

export default definePlugin({
  contract,
  needs: { sessions: Sessions },
  provides: Worktrees,
  setup({ kernel, needs: { sessions }, scope, log }) {
    const { clock, env, lifecycle, paths, tables } = kernel
    const git = new Git(env, clock)
    const scripts = new Scripts(paths.config, env, clock, scope.signal)
    const bindings = tables.table(bindingTable)
    const projects = setupProjects({
      kernel,
      sessions,
      git,
      scope: scope.child('projects'),
      log,
      trees: {
        containing: (path) => trees.lookup.containing(path),
        boundTo: (id) => trees.lookup.boundTo(id),
        follow: (session) => trees.lookup.follow(session),
        movedTo: (path) => trees.lookup.movedTo(path),
        inRepository: (commonDir) => trees.lookup.inRepository(commonDir),
        prune: (commonDir) => trees.prune(commonDir),
      },
    })
    const trees: Trees = new Trees({
      git,
      bindings,
      data: paths.data,
      clock,
      log,
      sessions,
      projects: projects.door,
      places: projects.places,
      signal: scope.signal,
      scripts,
    })
    const sessionScripts = new SessionScripts({
      sessions,
      scripts,
      binding: (id) => trees.lookup.get(id),
      scope: scope.child('scripts'),
      log,
    })
    // Released after what starts work: the stores it writes are closed later.
    scope.defer('scripts', () => sessionScripts.idle())
    scope.defer('trees', () => trees.turns.idle())
    sessions.hooks.plan.tapPromise('worktrees', (plan) => trees.plan(plan))
    sessions.hooks.prepare.tapPromise('worktrees', (preparation) => trees.prepare(preparation))
    sessions.hooks.leaving.tapPromise('worktrees', (leaving) => trees.leave(leaving))
    // Behind the start: it waits for git.
    lifecycle.ready.tap('worktrees', () => {
      const recovery = trees
        .recover(tables.quarantined.length > 0)
        .catch((err: unknown) => log.error({ err }, 'worktrees of a start before could not be looked through'))
      scope.defer('recovery', () => recovery)
    })
    return {
      service: {
        boundTo: (id: string) => trees.lookup.boundTo(id),
        hold: (id: string, signal: AbortSignal) => trees.lookup.hold(id, signal),
      },
      methods: {
        ...projects.methods,
        'session.diff': diff(git, sessions, trees.lookup),
        'worktree.remove': worktreeRemove(git, sessions, trees),
        'worktree.list': worktreeList(git, sessions, trees.lookup),
        'worktree.rescue.list': rescueList(git, projects.door, trees.lookup),
        'worktree.rescue.restore': rescueRestore(git, projects.door, trees),
      },
    }
  },
})
