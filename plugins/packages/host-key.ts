/** The secret of this host under which directories and profiles are named without telling them. */
import { createHmac, randomBytes } from 'node:crypto'
import { join } from 'node:path'
import { privateDir, readPrivate, writeAtomicSync } from '../../kernel/secure-files.ts'

const FILE = 'profile-revision.key'
const KEY_BYTES = 32

/** <state>/host/profile-revision.key, made on first use. Throws when it cannot be read or made, or is not a key. */
function hostKey(state: string): Buffer {
  const directory = join(state, 'host')
  const file = join(directory, FILE)
  privateDir(directory, state)
  const found = readPrivate(file, KEY_BYTES)
  if (found === undefined) {
    const key = randomBytes(KEY_BYTES)
    // One daemon holds the roots: nobody else makes one meanwhile.
    writeAtomicSync(file, key)
    return key
  }
  if (found.length !== KEY_BYTES) throw new Error(`${file} has ${found.length} bytes, not ${KEY_BYTES}`)
  return found
}

/** HMAC-SHA256 of `text` for one purpose, lower-case hex. Throws as the key does. */
export function hostHmac(state: string, purpose: string, text: string): string {
  return createHmac('sha256', hostKey(state)).update(`${purpose}\n`).update(text).digest('hex')
}
