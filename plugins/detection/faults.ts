/** Error catalogue of detection (contract/errors.md "runtime — agents, profiles, runtimes" and "observation"). */
import { catalogue } from '../../protocol/fault.ts'

export const faults = catalogue({
  invalid_profile: {
    class: 'runtime',
    say: (d: { file: string; key?: string; problem: string }) =>
      `detection manifest ${d.file}${d.key === undefined ? '' : `, ${d.key}`}: ${d.problem}`,
    recover: 'correct the file',
  },
  session_detection_response_too_large: {
    class: 'runtime',
    say: (d: { id: string; bytes: number; limit: number }) =>
      `the region previews of session ${d.id} take ${d.bytes} bytes, more than the ${d.limit} an answer may have`,
    recover: 'pohunek session screen shows what is on the screen',
  },
})
