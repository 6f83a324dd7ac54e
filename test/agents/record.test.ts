/**
 * Makes the recordings below test/fixtures/terminal anew, with POHUNEK_RECORD=1: after a new version was pinned. What
 * changed shows in the states they replay to.
 */
import { describe, test } from 'vitest'
import { writeRecording } from '../harness/recording.ts'
import { PINNED, type AgentKey } from './agents.ts'
import { Recorder } from './recorder.ts'
import { LOOKS, SCENES, scenesOf } from './scenes.ts'

describe.runIf(process.env['POHUNEK_RECORD'] === '1')('recordings', () => {
  for (const key of Object.keys(PINNED) as AgentKey[]) {
    const { name } = PINNED[key]
    for (const name_ of scenesOf(key)) {
      const scene = SCENES[name_]
      test.runIf(scene !== undefined)(`${key}: ${name_}`, async () => {
        const home = { unasked: scene?.unasked?.includes(name) ?? false, ...scene?.home }
        const recorder = await Recorder.start(key, home, scene?.size)
        await scene?.play(recorder, LOOKS[name])
        writeRecording(key, recorder.recording(name_))
      })
    }
  }
})
