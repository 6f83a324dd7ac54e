/** Wire surface of worktrees and projects. Data only: the CLI and the client import this. */
import { contract } from '../../protocol/contract.ts'
import { projectMethods } from './contract-projects.ts'
import { treeMethods } from './contract-trees.ts'

export default contract({
  name: 'worktrees',
  methods: { ...projectMethods, ...treeMethods },
  events: {},
})
