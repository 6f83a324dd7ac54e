/** Wire surface of packages: none yet. The plugin is named here because its runtimes and profiles are served. */
import { contract } from '../../protocol/contract.ts'

export default contract({ name: 'packages', methods: {}, events: {} })
