/** Evidence and what becomes of it, in manual time: every line of the order, every debounce, and random lives. */
import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import type { Reading } from '../../plugins/detection/readings.ts'
import { APP, question, rule, Stage, type Face } from './stage.ts'

const working = rule('working')
const blocked = rule('blocked')
const idle = rule('idle')
const spinner = rule('working', { rule: 'spinner' })
const plain = rule('idle', { rule: 'plain-title' })
const attention = rule('blocked', { rule: 'attention' })

/** A stage whose agent is known to be in that state. */
function resting(face: Face = { screen: idle }): Stage {
  const it = new Stage()
  it.draw(face)
  it.pass(2_000)
  return it
}
function atWork(face: Face = { screen: working }): Stage {
  const it = resting()
  it.draw(face)
  it.pass(200)
  expect(it.shown).toBe('working')
  it.told.length = 0
  return it
}

describe('settling', () => {
  test('working is believed at once', () => {
    const it = resting()
    it.draw({ screen: working })
    it.pass(0)
    expect(it.shown).toBe('working')
  })

  test('A1: every state is settled within a second of its first picture, without output or client', () => {
    for (const from of [working, question, idle, undefined])
      for (const to of [working, question, idle]) {
        const it = resting({ screen: from })
        it.draw({ screen: to })
        it.pass(1_000)
        expect(it.shown, `${from?.state} to ${to.state}`).toBe(to.state)
      }
  })

  test('idle needs looks that agree; a working one between starts over', () => {
    const it = atWork()
    for (let round = 0; round < 10; round++) {
      it.draw({ screen: idle })
      it.pass(200)
      it.draw({ screen: working })
      it.pass(100)
    }
    expect(it.story).toEqual([])
    it.draw({ screen: idle })
    it.pass(290)
    expect(it.shown).toBe('working')
    it.pass(100)
    expect(it.story).toEqual(['idle'])
  })

  test('an idle screen beside output that never rests is believed at the cap', () => {
    const it = atWork()
    it.draw({ screen: idle })
    const start = it.now
    while (it.shown !== 'idle' && it.now < start + 2_000) {
      it.output()
      it.pass(20)
    }
    expect(it.now - start).toBeGreaterThanOrEqual(680)
    expect(it.now - start).toBeLessThanOrEqual(800)
  })

  test('one late look is no confirmation', () => {
    const it = atWork()
    it.draw({ screen: idle })
    it.pass(0)
    it.now += 5_000
    it.look()
    expect(it.shown).toBe('working')
  })

  test('blocked is confirmed by a second look', () => {
    const it = resting()
    it.draw({ screen: question })
    it.pass(50)
    expect(it.shown).toBe('idle')
    it.pass(60)
    expect(it.told.at(-1)).toMatchObject({ activity: 'blocked', why: 'question', fresh: true })
  })

  test('FC-cb0c: working for 200 ms does not resolve a question', () => {
    const it = resting({ screen: question })
    it.told.length = 0
    it.draw({ screen: working })
    it.pass(200)
    it.draw({ screen: question })
    it.pass(5_000)
    expect(it.story).toEqual([])
    it.draw({ screen: working })
    it.pass(600)
    expect(it.story).toEqual(['working'])
  })

  test('FC-8925: an agent that goes to rest without more output is seen to rest', () => {
    const it = atWork()
    it.draw({ screen: idle })
    it.pass(60_000)
    expect(it.story).toEqual(['idle'])
  })

  test('an agent that rests, is blocked, or works on a still screen costs no look', () => {
    for (const screen of [idle, question, working]) {
      const it = resting({ screen })
      const { looks } = it
      it.pass(3_600_000)
      expect(it.looks, screen.state).toBe(looks)
      expect(it.rests).toBe(true)
    }
  })

  test('half a picture proves no rest', () => {
    const it = atWork()
    for (let n = 0; n < 20; n++) {
      it.draw({ screen: idle, partial: true })
      it.pass(100)
    }
    expect(it.shown).toBe('working')
    it.pass(1_000)
    expect(it.shown, 'the program stays inside its update').toBe('idle')
  })
})

describe('the order of evidence', () => {
  test('FC-61dc: what no rule matches is unknown after a second, never idle', () => {
    for (const screen of [idle, working, question]) {
      const it = resting({ screen })
      it.told.length = 0
      it.draw({ screen: undefined })
      it.pass(900)
      expect(it.story).toEqual([])
      it.pass(1_000)
      expect(it.story).toEqual(['unknown'])
      expect(it.verdict?.voices.every((one) => !one.counted)).toBe(true)
    }
  })

  test('FC-61dc: output keeps a working agent working while its screen says nothing', () => {
    const it = atWork()
    it.draw({ screen: undefined })
    for (let n = 0; n < 100; n++) {
      it.pass(100)
      it.output()
    }
    expect(it.story).toEqual([])
    it.pass(1_600)
    expect(it.story).toEqual(['unknown'])
  })

  test('FC-6596: a question beats a spinner in the title and a report, and is told once', () => {
    const it = atWork({ screen: working, title: spinner })
    it.report('working')
    it.draw({ screen: question })
    for (let n = 0; n < 100; n++) {
      it.pass(100)
      it.title(spinner)
    }
    expect(it.story).toEqual(['blocked'])
  })

  test('FC-2286: an idle title proves nothing where a screen can say idle', () => {
    const it = resting({ screen: undefined, title: plain })
    expect(it.shown).toBeUndefined()
    it.draw({ screen: working })
    it.pass(1_000)
    expect(it.shown).toBe('working')
    const told = resting({ screen: undefined, title: plain, knowsIdleScreen: false })
    expect(told.shown).toBe('idle')
  })

  test('FC-0167: a title that spins no more loses to the screen', () => {
    const it = atWork({ screen: undefined, title: spinner })
    it.pass(1_000)
    it.draw({ screen: idle })
    it.pass(1_500)
    expect(it.shown).toBe('working')
    it.pass(1_500)
    expect(it.story).toEqual(['idle'])
  })

  test.each(['title', 'report'])('a word of work that the %s left over an unknown screen ends', (by) => {
    const says = (it: Stage): void => (by === 'title' ? it.title(spinner) : it.report('working'))
    const it = atWork({ screen: working })
    says(it)
    it.draw({ screen: undefined, composer: false })
    for (let n = 0; n < 20; n++) {
      it.pass(1_000)
      says(it)
    }
    expect(it.story, 'it is said again and again').toEqual([])
    it.pass(2_900)
    expect(it.story).toEqual([])
    it.pass(1_200)
    expect(it.story).toEqual(['unknown'])
    expect(it.rests).toBe(true)
    const typed = atWork({ screen: working })
    says(typed)
    typed.draw({ screen: undefined, composer: true })
    typed.pass(59_000)
    expect(typed.story, 'behind a text in the input box').toEqual([])
    typed.pass(3_000)
    expect(typed.story).toEqual(['unknown'])
    const bare = atWork({ screen: undefined, title: spinner, knowsIdleScreen: false })
    bare.pass(600_000)
    expect(bare.story, 'where the title is all there is').toEqual([])
  })

  test('FC-2326: a live composer below a title that turns once a second makes two changes', () => {
    const it = resting()
    it.told.length = 0
    for (let frame = 0; frame < 60; frame++) {
      it.draw({ screen: frame % 3 === 0 ? working : idle })
      if (frame % 4 === 0) it.title(spinner)
      it.pass(250)
    }
    it.title(plain)
    it.draw({ screen: idle })
    it.pass(2_000)
    expect(it.story).toEqual(['working', 'idle'])
  })

  test('a title that calls for attention wins while it is set again, and stays without contrary evidence', () => {
    const it = resting({ screen: idle, title: attention })
    for (let n = 0; n < 30; n++) {
      it.pass(500)
      it.title(attention)
    }
    expect(it.shown).toBe('blocked')
    const still = resting({ screen: undefined, title: attention })
    still.pass(60_000)
    expect(still.shown).toBe('blocked')
  })

  test('another program in front: an agent that rests is gone at once, one that works after a second', () => {
    const it = resting()
    it.front('other')
    it.output()
    it.pass(0)
    expect(it.shown).toBeUndefined()
    const busy = atWork()
    busy.front('other')
    busy.output()
    busy.pass(900)
    expect(busy.shown).toBe('working')
    busy.pass(200)
    expect(busy.shown).toBeUndefined()
    busy.draw({ screen: idle })
    busy.pass(5_000)
    expect(busy.shown).toBeUndefined()
  })
})

describe('reports', () => {
  test('outrank title and screen of their own agent', () => {
    const it = resting()
    it.report('working')
    it.pass(10_000)
    expect(it.shown).toBe('working')
    it.report('done')
    it.pass(500)
    expect(it.shown).toBe('idle')
    expect(it.told.at(-1)).toMatchObject({ source: 'report' })
  })

  test('of another program, or of a group no longer in front, do not count', () => {
    const it = resting()
    it.report('working', { app: 'other' })
    it.pass(1_000)
    it.front('agent', 7)
    it.report('working', { group: 8 })
    it.pass(1_000)
    expect(it.shown).toBe('idle')
    it.report('dancing')
    it.pass(1_000)
    expect(it.shown).toBe('idle')
    it.report('working', { group: 7 })
    it.pass(0)
    expect(it.shown).toBe('working')
  })

  test('that name nobody do not count for an agent that makes none', () => {
    const it = resting()
    it.app = undefined
    it.report('working')
    it.pass(1_000)
    expect(it.shown).toBe('idle')
    expect(it.verdict?.voices).toContainEqual(
      expect.objectContaining({ source: 'report', counted: false, why: 'it speaks for another program' }),
    )
  })

  test('FC-816b: a report of working lasts while the screen agrees, and not against an empty composer after it', () => {
    const it = resting()
    it.report('working')
    it.draw({ screen: working })
    it.pass(20 * 60_000)
    expect(it.shown).toBe('working')
    it.draw({ screen: idle })
    it.pass(2_900)
    expect(it.shown).toBe('working')
    it.pass(600)
    expect(it.shown).toBe('idle')
  })

  test('FC-816b: a composer that was there before the report does not contradict it, until nothing moves any more', () => {
    const it = resting()
    it.report('working')
    for (let n = 0; n < 1_000; n++) {
      it.pass(500)
      it.output()
    }
    expect(it.shown).toBe('working')
    it.pass(62_000)
    expect(it.shown).toBe('idle')
  })

  test('a question reported before it is drawn counts', () => {
    const it = atWork()
    it.report('blocked', { kind: 'permission' })
    it.pass(1_000)
    expect(it.told.at(-1)).toMatchObject({ activity: 'blocked', source: 'report', why: 'permission' })
    it.draw({ screen: question })
    it.pass(60_000)
    expect(it.shown).toBe('blocked')
  })

  test('FC-9b28: a question no report told of is seen; a report left over from it does not outlast it', () => {
    const it = atWork()
    it.draw({ screen: question })
    it.pass(200)
    expect(it.shown).toBe('blocked')
    it.report('blocked')
    it.pass(1_000)
    it.draw({ screen: working })
    it.pass(1_100)
    expect(it.shown).toBe('working')
  })

  test('a question reported and never drawn is taken back', () => {
    const it = atWork()
    it.report('blocked')
    it.pass(2_900)
    expect(it.shown).toBe('blocked')
    it.pass(1_000)
    expect(it.shown).toBe('working')
  })

  test('of rest lose to work that began after them', () => {
    const it = atWork()
    it.report('idle')
    it.draw({ screen: idle })
    it.pass(1_000)
    expect(it.shown).toBe('idle')
    it.draw({ screen: working })
    it.pass(700)
    expect(it.shown).toBe('working')
  })

  test('of rest outlast what was drawn before them, also when it is redrawn in halves', () => {
    const it = atWork()
    it.report('idle')
    it.pass(100)
    it.draw({ screen: undefined, partial: true })
    it.pass(100)
    it.draw({ screen: working, partial: false })
    it.pass(1_500)
    expect(it.story).toEqual(['idle'])
  })

  test('lose to titles that speak after them', () => {
    const it = resting({ screen: idle, title: plain })
    it.report('idle')
    for (let n = 0; n < 5; n++) {
      it.title(spinner)
      it.pass(200)
    }
    expect(it.shown).toBe('working')
    it.report('idle')
    it.title(plain)
    it.pass(1_000)
    expect(it.shown).toBe('idle')
    it.draw({ title: attention })
    it.pass(300)
    expect(it.shown).toBe('blocked')
    it.report('working')
    it.title(plain)
    it.pass(1_000)
    expect(it.shown).toBe('working')
    for (let n = 0; n < 7; n++) {
      it.title(attention)
      it.pass(200)
    }
    expect(it.shown).toBe('blocked')
  })

  test('of rest lose to a spinner that goes on turning', () => {
    const it = atWork()
    it.report('done')
    for (let n = 0; n < 50; n++) {
      it.pass(100)
      it.output()
    }
    expect(it.shown).toBe('working')
  })
})

describe('quick turns', () => {
  test('FC-0f38: a turn only its reports tell of is told as one', () => {
    const it = resting()
    it.told.length = 0
    it.accepted()
    it.report('working')
    it.report('idle')
    it.pass(5_000)
    expect(it.story).toEqual(['working', 'idle'])
  })

  test('FC-0f38: without reports, accepted input and output tell the same again; output alone does not', () => {
    const it = resting()
    it.told.length = 0
    it.output()
    it.pass(5_000)
    expect(it.story).toEqual([])
    it.accepted()
    it.output()
    it.pass(5_000)
    expect(it.story).toEqual(['idle again'])
    it.accepted()
    it.pass(60_000)
    expect(it.story, 'nothing was printed').toEqual(['idle again'])
    expect(it.rests).toBe(true)
  })

  test('FC-1138: an agent that starts late is seen to work before it is told idle', () => {
    const it = resting()
    it.told.length = 0
    it.accepted()
    it.output()
    it.pass(1_500)
    it.draw({ screen: working })
    it.pass(1_000)
    it.draw({ screen: idle })
    it.pass(10_000)
    expect(it.story).toEqual(['working', 'idle'])
  })
})

/** More of them: POHUNEK_TEST_RUNS=20000. */
const RUNS = Number(process.env['POHUNEK_TEST_RUNS'] ?? 300)

describe('random lives', () => {
  type Truth = 'working' | 'blocked' | 'idle'
  interface Segment {
    readonly truth: Truth
    readonly style: 'title' | 'screen' | 'steady' | 'stranger'
    readonly ms: number
    readonly beats: readonly number[]
    readonly partial: boolean
  }
  const segment = fc.record<Segment>({
    truth: fc.constantFrom('working', 'blocked', 'idle'),
    style: fc.constantFrom('title', 'screen', 'steady', 'stranger'),
    ms: fc.integer({ min: 30, max: 9_000 }),
    beats: fc.array(fc.integer({ min: 10, max: 1_000 }), { minLength: 1, maxLength: 6 }),
    partial: fc.boolean(),
  })

  /** An agent that never lies, and draws as badly as real ones do: in pieces, with gaps, with a composer throughout. */
  function play(it: Stage, now: Segment, reports: boolean, each: () => void): void {
    const end = it.now + now.ms
    const pass = (ms: number): void => it.pass(Math.max(0, Math.min(ms, end - it.now)), each)
    const begin = (face: Face, title: Reading | undefined): void => {
      if (title !== undefined) it.title(title)
      it.draw(face)
    }
    if (now.truth === 'idle') {
      if (reports) it.report('done')
      // A title may be left spinning.
      begin({ screen: idle, partial: false }, now.style === 'screen' ? undefined : plain)
      return pass(now.ms)
    }
    if (now.truth === 'blocked') {
      if (reports) it.report('blocked', { kind: 'permission' })
      begin({ screen: question, partial: false }, now.style === 'title' ? spinner : undefined)
      return pass(now.ms)
    }
    if (reports) it.report('working')
    switch (now.style) {
      case 'title':
        for (let n = 0; it.now < end; n++) {
          it.title(spinner)
          it.draw({ screen: n % 2 === 0 ? idle : undefined, partial: false })
          pass(now.beats[n % now.beats.length] ?? 100)
        }
        return
      case 'screen':
        for (let n = 0; it.now < end; n++) {
          // What is shown for less than the pause between two looks cannot be seen; no agent does that.
          it.draw({ screen: working, partial: false })
          pass(Math.max(100, now.beats[n % now.beats.length] ?? 100))
          if (it.now >= end) return
          // Redrawn in pieces: for a moment only the composer stands there.
          it.draw({ screen: idle, partial: now.partial })
          pass(150)
        }
        return
      case 'steady':
        it.draw({ screen: working, partial: false })
        for (let n = 0; it.now < end; n++) {
          pass(now.beats[n % now.beats.length] ?? 100)
          it.output()
        }
        return
      case 'stranger':
        it.draw({ screen: working, partial: false })
        pass(100)
        it.draw({ screen: undefined, partial: false })
        for (let n = 0; it.now < end; n++) {
          pass(now.beats[n % now.beats.length] ?? 100)
          it.output()
        }
    }
  }

  test('never idle while the agent works or waits, blocked and idle are found in time', () => {
    fc.assert(
      fc.property(fc.boolean(), fc.array(segment, { minLength: 1, maxLength: 12 }), (reports, segments) => {
        const it = new Stage()
        for (const now of segments) {
          const start = it.now
          let lied: string | undefined
          play(it, now, reports, () => {
            // A question is confirmed once, work is seen by the next look.
            if (now.truth !== 'idle' && it.now > start + 200 && it.shown === 'idle')
              lied ??= `idle at ${it.now - start} of ${JSON.stringify(now)}`
          })
          expect(lied).toBeUndefined()
          if (now.truth === 'blocked' && now.ms >= 300) expect(it.shown).toBe('blocked')
          const isTitleLeft = now.style === 'screen'
          if (now.truth === 'idle' && now.ms >= (isTitleLeft ? 4_200 : 1_000)) expect(it.shown).toBe('idle')
        }
      }),
      { numRuns: RUNS },
    )
  })

  test('the same whatever a worker that keeps no evidence leaves out', () => {
    const blind = fc.array(
      segment.filter((it) => it.style === 'screen' || it.style === 'stranger'),
      { minLength: 1, maxLength: 8 },
    )
    fc.assert(
      fc.property(blind, (segments) => {
        const it = new Stage()
        it.evidence = false
        for (const now of segments) {
          const start = it.now
          let lied = false
          play(it, now, false, () => {
            if (now.truth !== 'idle' && it.now > start + 200 && it.shown === 'idle') lied = true
          })
          expect(lied).toBe(false)
        }
      }),
      { numRuns: RUNS },
    )
  })

  test('whatever comes, revisions tell changes, rest is reached, and idle has positive evidence', () => {
    const face = fc.record<Face>({
      screen: fc.constantFrom(undefined, working, blocked, question, idle),
      title: fc.constantFrom(undefined, spinner, plain, attention),
      identity: fc.constantFrom('agent', 'agent', 'other', 'unknown'),
      partial: fc.boolean(),
    })
    const step = fc.record({
      face,
      report: fc.constantFrom(undefined, 'working', 'blocked', 'idle', 'done', 'error', 'what'),
      app: fc.constantFrom(APP, 'other'),
      accepted: fc.boolean(),
      ms: fc.integer({ min: 0, max: 5_000 }),
    })
    fc.assert(
      fc.property(fc.array(step, { maxLength: 30 }), (steps) => {
        const it = new Stage()
        for (const { face: drawn, report, app, accepted, ms } of steps) {
          it.draw(drawn)
          if (report !== undefined) it.report(report, { app })
          if (accepted) it.accepted()
          it.pass(ms)
        }
        it.pass(200_000)
        expect(it.rests).toBe(true)
        let last: string | undefined
        for (const told of it.told) {
          if (told.fresh) expect(told.activity).not.toBe(last)
          else expect(told.activity).toBe(last)
          if (told.activity === 'idle') expect(told.verdict.state).toBe('idle')
          if (told.activity === 'blocked') expect(told.verdict.state).toBe('blocked')
          last = told.activity
        }
        expect(it.shown).toBe(last)
      }),
      { numRuns: RUNS },
    )
  })
})

describe('questions in a row', () => {
  /** An agent that asks, was told of, and got keys. */
  function answered(): Stage {
    const it = resting()
    it.report('working')
    it.pass(200)
    it.report('blocked', { kind: 'permission' })
    it.draw({ screen: question })
    it.pass(2_000)
    it.told.length = 0
    it.keys()
    return it
  }

  test('the picture of the one that was answered is not the next one', () => {
    const it = answered()
    it.report('working') // and its dialog still stands there
    it.pass(300)
    it.draw({ screen: working })
    it.pass(2_000)
    expect(it.story).toEqual(['working'])
  })

  test('the next one is told, whether its report or its picture comes first', () => {
    const reported = answered()
    reported.report('working')
    reported.pass(300)
    reported.report('blocked', { kind: 'permission' })
    reported.pass(2_000)
    expect(reported.story).toEqual(['blocked again'])
    const drawn = answered()
    drawn.report('working')
    drawn.pass(100)
    drawn.draw({ screen: working })
    drawn.pass(100)
    drawn.draw({ screen: question })
    drawn.pass(2_000)
    expect(drawn.story).toEqual(['blocked again'])
  })
})

describe('a turn that failed', () => {
  const failures = (it: Stage): unknown[] => it.told.map(({ activity, failedAt }) => failedAt ?? activity)

  test('is one where the agent says so, once, at the time it said so', () => {
    const it = resting()
    it.report('idle')
    it.told.length = 0
    it.report('working')
    it.draw({ screen: working })
    it.pass(400)
    const at = it.now
    it.report('error')
    it.draw({ screen: idle })
    it.pass(5_000)
    expect(failures(it)).toEqual(['working', at])
  })

  test('quicker than two looks is one too', () => {
    const it = resting()
    it.report('idle')
    it.pass(2_000)
    it.told.length = 0
    it.report('working')
    it.report('error')
    const at = it.now
    it.pass(2_000)
    expect(failures(it)).toEqual(['working', at])
  })

  test('is none by an error of before, of another program, or that newer evidence contradicts', () => {
    const old = resting()
    old.report('working')
    old.pass(200)
    old.report('error')
    old.pass(2_000)
    old.draw({ screen: question })
    old.pass(1_000)
    old.told.length = 0
    old.draw({ screen: idle })
    old.pass(2_000)
    expect(failures(old)).toEqual(['idle'])
    const foreign = atWork()
    foreign.report('error', { app: 'other' })
    foreign.draw({ screen: idle })
    foreign.pass(2_000)
    expect(failures(foreign)).toEqual(['idle'])
    const resumed = atWork()
    resumed.report('error')
    resumed.pass(20)
    resumed.report('working')
    resumed.pass(2_000)
    resumed.report('done')
    resumed.draw({ screen: idle })
    resumed.pass(2_000)
    expect(failures(resumed)).toEqual(['idle'])
  })
})
