/** <data>/session-policy.json: read once, replaced whole. A file that cannot be used leaves the defaults in force. */
import * as v from 'valibot'
import { problemIn } from '../../kernel/params.ts'
import { readPrivate, writeAtomic } from '../../kernel/secure-files.ts'
import { coreFaults, messageOf } from '../../protocol/fault.ts'
import { RetentionPolicy } from './contract.ts'

const MAX_POLICY_BYTES = 65_536

export class PolicyFile {
  readonly path: string
  #policy: RetentionPolicy = v.parse(RetentionPolicy, {})
  /** Why the stored policy is not the one in force; undefined while it is. */
  problem: string | undefined

  constructor(path: string) {
    this.path = path
  }

  get now(): RetentionPolicy {
    return this.#policy
  }

  load(): void {
    try {
      const bytes = readPrivate(this.path, MAX_POLICY_BYTES)
      if (bytes === undefined) return
      const parsed = v.safeParse(RetentionPolicy, JSON.parse(bytes.toString('utf8')), { abortEarly: true })
      if (parsed.success) this.#policy = parsed.output
      else this.problem = `${this.path}: ${problemIn(parsed.issues, 'policy')}`
    } catch (failure) {
      this.problem = `${this.path}: ${messageOf(failure)}`
    }
  }

  /** Durable, then in force. Throws io_error. */
  async set(policy: RetentionPolicy): Promise<RetentionPolicy> {
    try {
      await writeAtomic(this.path, `${JSON.stringify(policy, null, 2)}\n`)
    } catch (failure) {
      throw coreFaults.io_error({ what: this.path, problem: messageOf(failure) }, failure)
    }
    this.#policy = policy
    this.problem = undefined
    return policy
  }
}
