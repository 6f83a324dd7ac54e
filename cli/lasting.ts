/** How commands that wait or follow outlive the daemon: by the bounds of attach.conf, with a word when it takes long. */
import type { MethodParams } from '../client/methods.ts'
import type { LastingOptions } from '../client/reconnect.ts'
import type { WaitingMethod } from '../client/waits.ts'
import type { Client } from '../client/client.ts'
import { loadAttachConfig } from './attach/config.ts'
import type { Cli } from './cli.ts'
import { err } from './out.ts'

export function lastingOptions(cli: Cli<Client>): LastingOptions {
  const { reconnect, problems } = loadAttachConfig(cli.roots.config)
  for (const problem of problems) err(`warning: attach.conf: ${problem}\n`)
  const seconds = Math.round(reconnect.windowMs / 1_000)
  return {
    reconnect,
    onAway: () => err(`note: the daemon is away; waiting up to ${seconds} s for it\n`),
  }
}

/** `method` is one that waits: the commands that ask for it see to that. */
export const lastingCall =
  (cli: Cli<Client>) =>
  (method: string, params: unknown, timeoutMs: number | undefined): Promise<unknown> =>
    cli.client.waitFor(method as WaitingMethod, params as MethodParams<WaitingMethod>, {
      ...lastingOptions(cli),
      timeoutMs,
    })
