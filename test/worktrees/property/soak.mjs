// `npm run soak:worktrees`: random work in managed trees, and a manager that is killed, until something is lost.
// Arguments and exit codes: test/soak.mjs.
import { soak } from '../../soak.mjs'

await soak({
  url: new URL('property.ts', import.meta.url),
  name: 'Woodland',
  unit: 'runs',
  options: { runs: 10, length: 60 },
})
