// `npm run soak`: random and damaged input on every socket of a daemon and its workers, until something is wrong.
// Arguments and exit codes: test/soak.mjs.
import { soak } from '../soak.mjs'

await soak({ url: new URL('fuzz.ts', import.meta.url), name: 'Fuzzer', unit: 'plans', options: { runs: 200 } })
