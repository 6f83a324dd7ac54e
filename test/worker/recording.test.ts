/** The recordings of real agents play the same in a terminal of their own as straight into one. */
import { expect, test } from 'vitest'
import type { TerminalSnapshot } from '../../protocol/worker/messages.ts'
import { playerArgv, readRecording, recordings, replay } from '../harness/recording.ts'
import { startWorker } from './harness.ts'

const visible = (it: TerminalSnapshot): object => {
  const { visible_lines, title, cursor, alternate_screen, bracketed_paste } = it
  return { visible_lines, title, cursor, alternate_screen, bracketed_paste, reports: it.evidence?.working_reports }
}

test('there is a recording of each agent', () => {
  expect(new Set(recordings().map(([agent]) => agent))).toEqual(new Set(['claude', 'claude-2.1.197', 'codex', 'pi']))
})

for (const [agent, scene] of [
  ['claude', 'approval'],
  ['claude-2.1.197', 'interrupt'],
  ['codex', 'working'],
  ['pi', 'retry'],
] as const) {
  test(`${agent}: ${scene} ends on the same screen, told by the same reports`, async () => {
    const recording = readRecording(agent, scene)
    let last: TerminalSnapshot | undefined
    replay(recording, ({ picture }) => (last = picture))
    expect(last).toBeDefined()
    const bytes = recording.entries.reduce(
      (sum, it) => sum + ('data' in it ? Buffer.from(it.data, 'base64').length : 0),
      0,
    )
    expect(last?.watermark).toBe(bytes)

    const worker = await startWorker()
    const { columns, rows } = recording.header
    await worker.initialize(playerArgv(agent, scene, 20), { dimensions: { columns, rows } })
    const screen = await worker.screen('all was played', (it) => it.watermark === bytes)
    expect(visible(screen)).toEqual(visible(last as TerminalSnapshot))
    await worker.type('\nquit\n')
    expect((await worker.exited())['exit']).toMatchObject({ code: 0 })
  })
}

test('nothing of the machine they were made on is in them', () => {
  for (const [agent, scene] of recordings()) {
    const { entries, header } = readRecording(agent, scene)
    const text = Buffer.concat(entries.map((it) => ('data' in it ? Buffer.from(it.data, 'base64') : Buffer.alloc(0))))
    expect(text.toString('latin1'), `${agent}/${scene}`).not.toMatch(/\/(root|tmp|work|var)\/|@[a-z0-9-]+:/)
    expect(header).toMatchObject({ format: 1, scene })
    expect(entries.map((it) => it.at)).toEqual(entries.map((it) => it.at).sort((a, b) => a - b))
  }
})
