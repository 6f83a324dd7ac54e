/** A manifest whose patterns take for ever: the daemon goes on, the rules are given up, and it says so. */
import { expect, test } from 'vitest'
import { until } from '../harness/wait.ts'
import { refused } from '../harness/session.ts'
import { COMPOSER, MANIFEST, screen, shows, theatre } from './theatre.ts'

const X = 'x'.repeat(79)
const slow = (n: number): string =>
  `[[rules]]\nid = "slow${n}"\nstate = "blocked"\npriority = 9000\nregion = "whole_recent"\nregex = '.*.*.*.*.*.*#${n}'\n`

test.each<[string, string, RegExp]>([
  [
    'a hundred rules',
    `${MANIFEST}\n${Array.from({ length: 100 }, (_, n) => slow(n)).join('')}`,
    /none of them is used/,
  ],
  [
    'one rule with the same repetition spelled in many ways',
    `${MANIFEST}\n${slow(0).replace(/regex = .*/, "line_regex = 'x*[x]*[xx]*[xxx]*[xxxx]*[xxxxx]*[xxxxxx]*[xxxxxxx]*y'")}`,
    /not used any more, .*: rule slow0/,
  ],
  [
    'patterns of processes',
    MANIFEST.replace(/^cmdline = .*$/m, "cmdline = ['.*.*.*.*.*.*#Z']"),
    /not used any more, .*: \[process\]/,
  ],
])('%s that never end: others are served, and doctor and explain name what was given up', async (_, text, told) => {
  const it = await theatre()
  it.manifest('slow', text)
  const session = await it.agent(undefined, undefined, ['manifest = "slow"'])
  const other = await it.agent()
  await other.stub.write(COMPOSER)
  await session.stub.write(screen(X, X, X, '> '))
  const explanation = await until('it is given up', async () => {
    await session.stub.write('\x1b[5;1H', String(Math.random()).slice(0, 6)) // each look finds another screen
    const { manifest } = await session.call('session.explain')
    return told.test(manifest.problem ?? '') ? manifest : undefined
  })
  expect(explanation.problem).toMatch(/the 50 ms that a look may take/)
  await shows(other, 'idle')
  const { checks } = await it.station.kernel.kernel.diagnostics.run()
  expect(checks.find(({ name }) => name === 'detection_manifests')).toMatchObject({
    status: 'warn',
    detail: expect.stringMatching(told) as string,
  })
})

test('a question that is given up is not ruled out: nothing is typed into the box it may stand above', async () => {
  const it = await theatre({ input_rules: 'composer = "required"' })
  it.manifest('slow', `${MANIFEST}\n${slow(0)}`)
  const session = await it.agent(undefined, undefined, ['manifest = "slow"'])
  await session.stub.write(screen(X, X, X, '> '))
  await until('it is given up', async () => {
    const { manifest } = await session.call('session.explain')
    return /not used any more/.test(manifest.problem ?? '')
  })
  expect((await session.info()).activity).toBeUndefined()
  await refused(session.call('session.input', { text: 'x' }))
  expect(session.stub.typed).toBe('')
})
