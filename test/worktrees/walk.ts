/** What tests of projects share: a program that says where it is, and waiting for what a session shows. */
import type { Session } from '../harness/session.ts'
import { until } from '../harness/wait.ts'
import type { Answer } from '../harness/wire.ts'
import type { Station } from '../sessions/station.ts'

/** A machine that is busy with other tests starts a git slowly. */
const SHOWN_MS = 25_000

/** A session whose program tells each line it is given as its directory, as shells do. */
export const walker = (s: Station, params: Record<string, unknown> = {}): Promise<Session> =>
  s.sh(`while read -r at; do printf '\\033]7;file://%s%s\\007' "$(hostname)" "$at"; done`, params)

/** Waits until a session shows exactly these values; undefined: it does not show the field. */
export async function shows(s: Station, id: string, fields: Record<string, unknown>): Promise<Answer> {
  let last: Answer
  return await until(
    `${JSON.stringify(fields)} on ${id}`,
    async () => {
      last = await s.call('session.inspect', id)
      return Object.entries(fields).every(([key, value]) => last[key] === value) ? last : undefined
    },
    { deadlineMs: SHOWN_MS, show: () => last as unknown },
  )
}
