/** session.explain as people read it. */
import { expect, test } from 'vitest'
import { explanationBlocks } from '../../plugins/detection/commands.ts'
import { world } from '../harness/world.ts'

test('an explanation is a few fields and two tables', () => {
  const blocks = explanationBlocks({
    session_id: 's-1',
    activity: 'blocked',
    source: 'screen',
    since: '2026-01-01T00:00:00.000Z',
    rule: { id: 'question', region: 'bottom_lines(3)' },
    revision: '7',
    pending: { for_ms: 61_000 },
    sources: [
      { source: 'report', says: 'working', age_ms: 12_345, counted: false, why: 'newer evidence contradicts it' },
      {
        source: 'screen',
        says: 'blocked',
        age_ms: 850,
        counted: true,
        why: 'a question outranks everything',
        rule: 'question',
        region: 'bottom_lines(3)',
      },
    ],
    identity: { in_front: 'agent', why: 'process 7 in front is named by the manifest', foreground_group: 7 },
    manifest: { file: '/m.toml', revision: 'sha256:0', problem: 'rules[0].id: is missing' },
    transitions: [{ source: 'process', at: '2026-01-01T00:00:00.000Z' }],
  })
  expect(blocks).toEqual([
    {
      fields: [
        ['activity', 'blocked'],
        ['since', '2026-01-01T00:00:00.000Z'],
        ['source', 'screen'],
        ['rule', 'question (bottom_lines(3))'],
        ['pending', 'unknown for 1 min'],
        ['in front', 'agent: process 7 in front is named by the manifest'],
        ['manifest', '/m.toml'],
        ['problem', 'rules[0].id: is missing'],
      ],
    },
    {
      table: {
        columns: ['SOURCE', 'SAYS', 'AGE', 'COUNTED', 'RULE', 'REGION', 'WHY'],
        rows: [
          ['report', 'working', '12 s', 'no', '-', '-', 'newer evidence contradicts it'],
          ['screen', 'blocked', '850 ms', 'yes', 'question', 'bottom_lines(3)', 'a question outranks everything'],
        ],
      },
    },
    {
      table: {
        columns: ['CHANGED', 'TO', 'SOURCE', 'RULE'],
        rows: [['2026-01-01T00:00:00.000Z', 'unknown', 'process', '-']],
      },
    },
  ])
})

test('the commands answer for a session of the shell', async () => {
  const it = await world()
  const session = await it.agent('shell')
  const told = await it.cli(['session', 'explain', session.id])
  expect(told).toMatchObject({ code: 0, stderr: '' })
  expect(told.stdout).toMatch(/^FIELD +VALUE\nactivity +unknown\n/)
  expect(told.stdout).toMatch(/\nosc_title +nothing +- +no /)
  const asJson = await it.cli(['session', 'explain', session.id, '--json'])
  expect(JSON.parse(asJson.stdout)).toMatchObject({ ok: { session_id: session.id, sources: [{}, {}] } })
  const regions = await it.cli(['session', 'detection', session.id, '--json'])
  expect(JSON.parse(regions.stdout).ok.supported_regions).toHaveLength(10)
  expect(await it.cli(['session', 'explain', 'nobody'])).toMatchObject({ code: 1 })
})
