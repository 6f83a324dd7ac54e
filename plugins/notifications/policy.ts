/** The policy of the inbox: what is kept, and for how long. `<data>/notifications/policy.json`, read once, replaced whole. */
import * as v from 'valibot'
import { problemIn } from '../../kernel/params.ts'
import { readPrivate, writeAtomic } from '../../kernel/secure-files.ts'
import { CONTROL_CHARACTER } from '../../protocol/scalars.ts'
import { messageOf } from '../../protocol/fault.ts'
import { faults } from './faults.ts'
import { NotificationPolicy, type KindPolicy, type NotificationKind } from './types.ts'

const MAX_POLICY_BYTES = 65_536
const MAX_PROVIDERS = 64
const MAX_PROVIDER_CHARS = 256

const kinds: KindPolicy = {
  agent_blocked: true,
  approval_required: true,
  turn_completed: false,
  session_finished: false,
  error: true,
  system: false,
}

export const defaultPolicy: NotificationPolicy = v.parse(NotificationPolicy, {
  enabled: kinds,
  providers: { claude: kinds, codex: kinds, hermes: kinds },
})

/** Pure. Whether the policy keeps records of this kind from this provider. */
export const keeps = (policy: NotificationPolicy, provider: string, kind: NotificationKind): boolean =>
  (Object.hasOwn(policy.providers ?? {}, provider) ? policy.providers?.[provider] : undefined)?.[kind] ??
  policy.enabled[kind]

/** Pure. In its stored form: providers sorted, left out when there are none. Throws invalid_notification_policy. */
export function checkedPolicy(policy: NotificationPolicy): NotificationPolicy {
  const refuse = (problem: string): never => {
    throw faults.invalid_notification_policy({ problem })
  }
  for (const [key, value] of Object.entries(policy.retention)) if (value === 0) refuse(`retention.${key} is zero`)
  const { providers = {}, ...rest } = policy
  const names = Object.keys(providers).sort()
  if (names.length > MAX_PROVIDERS) refuse(`providers has more than ${MAX_PROVIDERS} entries`)
  if (names.some((it) => it === '' || it.length > MAX_PROVIDER_CHARS || CONTROL_CHARACTER.test(it)))
    refuse(`a name in providers is empty, over ${MAX_PROVIDER_CHARS} characters or has control characters`)
  const sorted = Object.fromEntries(names.map((name) => [name, providers[name] as KindPolicy]))
  return names.length === 0 ? rest : { ...rest, providers: sorted }
}

export class PolicyFile {
  readonly #path: string
  #policy = defaultPolicy
  /** Why the stored policy is not the one that holds; undefined while it is. */
  problem: string | undefined

  constructor(path: string) {
    this.#path = path
  }

  get now(): NotificationPolicy {
    return this.#policy
  }

  get debounceMs(): number {
    return this.#policy.attention_debounce_secs * 1_000
  }

  get dedupeMs(): number {
    return this.#policy.attention_dedupe_window_secs * 1_000
  }

  /** A file that cannot be used leaves the defaults in force and stays as it is until the policy is set. */
  load(): void {
    try {
      const bytes = readPrivate(this.#path, MAX_POLICY_BYTES)
      if (bytes === undefined) return
      const parsed = v.safeParse(NotificationPolicy, JSON.parse(bytes.toString('utf8')), { abortEarly: true })
      if (parsed.success) this.#policy = checkedPolicy(parsed.output)
      else this.problem = `${this.#path}: ${problemIn(parsed.issues, 'policy')}`
    } catch (failure) {
      this.problem = `${this.#path}: ${messageOf(failure)}`
    }
  }

  /** Durable, then in force. Throws invalid_notification_policy, notification_store_error. */
  async set(policy: NotificationPolicy): Promise<NotificationPolicy> {
    const checked = checkedPolicy(policy)
    try {
      await writeAtomic(this.#path, `${JSON.stringify(checked, null, 2)}\n`)
    } catch (failure) {
      throw faults.notification_store_error({ problem: messageOf(failure) }, failure)
    }
    this.#policy = checked
    this.problem = undefined
    return checked
  }
}
