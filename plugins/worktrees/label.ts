import { coreFaults } from '../../protocol/fault.ts'
import { MAX_SESSION_NAME_BYTES } from '../../protocol/limits.ts'
import { CONTROL_CHARACTER, utf8Bytes } from '../../protocol/scalars.ts'

/** A label somebody chose, trimmed; as long as names of sessions may be. Throws bad_request. */
export function displayLabel(name: string): string {
  const label = name.trim()
  const refuse = (problem: string): never => {
    throw coreFaults.bad_request({ problem })
  }
  if (CONTROL_CHARACTER.test(name)) refuse('a project name cannot hold control characters')
  if (label === '') refuse('the project name is blank')
  if (utf8Bytes(label) > MAX_SESSION_NAME_BYTES) refuse(`a project name is at most ${MAX_SESSION_NAME_BYTES} bytes`)
  return label
}
