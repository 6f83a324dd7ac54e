import { dirname } from 'node:path'
import { expect, test } from 'vitest'
import { connect } from '../../client/index.ts'
import { fitting, page } from '../../plugins/sessions/methods/list.ts'
import type { SessionInfo } from '../../plugins/sessions/types.ts'
import { run } from '../harness/cli.ts'
import { crowded } from '../harness/crowd.ts'
import { bin } from '../harness/roots.ts'

const COUNT = 5_000

test('5,000 stored sessions: list, targets, completions and the client see all of them', async () => {
  const { it, ids } = await crowded(COUNT)
  const cli = async (...args: string[]): Promise<string> => {
    const { code, stdout, stderr } = await it.cli(args)
    expect({ args, code, stderr }).toEqual({ args, code: 0, stderr: '' })
    return stdout
  }
  expect((await cli('session', 'list', '-q')).trim().split('\n').sort()).toEqual(ids)
  const listed = (JSON.parse(await cli('session', 'list', '--json')) as { ok: { id: string }[] }).ok
  expect(listed.map(({ id }) => id).sort()).toEqual(ids)
  expect((await cli('session', 'list')).split('\n')).toHaveLength(COUNT + 2)
  expect(JSON.parse(await cli('session', 'list', '--json', '--filter', 'state=running'))).toMatchObject({ ok: [] })
  const found = JSON.parse(
    await cli('session', 'list', '--json', '--filter', `id=${ids[4_321] ?? ''}`),
  ) as typeof listed
  expect(found).toMatchObject({ ok: [{ name: 'n4321' }] })

  // By a name that only the last page has, by a prefix, and a prefix that thousands share.
  expect(await cli('session', 'inspect', 'n4999')).toContain(ids[4_999])
  expect(await cli('session', 'inspect', ids[4_999] as string)).toContain('n4999')
  const ambiguous = await it.cli(['session', 'inspect', 's-01JSTQRED'])
  expect(ambiguous.code).toBe(1)
  expect(ambiguous.stderr).toContain('means 5000 sessions')

  const complete = `source <(pohunek completions bash --dynamic); COMP_WORDS=(pohunek attach s-); COMP_CWORD=2; _pohunek; echo "\${#COMPREPLY[@]}"`
  const env = it.roots.env({ POHUNEK_NO_START: '1', PATH: `${dirname(bin('pohunek'))}:${process.env.PATH ?? ''}` })
  expect((await run('/bin/bash', ['-c', complete], { cwd: it.roots.work, env })).stdout).toBe(`${COUNT}\n`)

  using client = await connect({ env: it.roots.env() })
  expect((await client.listSessions()).map(({ id }) => id).sort()).toEqual(ids)
  expect(await client.listSessions([{ key: 'state', value: 'running' }])).toEqual([])
}, 60_000)

test('sessions too big for a thousand to fit one line are all listed', async () => {
  const { it, ids } = await crowded(COUNT, { note: 'x'.repeat(3_000) })
  using client = await connect({ env: it.roots.env() })
  // One answer is one line of the contract's length: all at once is refused, a page says which ones come first.
  await expect(client.call('session.list', null)).rejects.toMatchObject({
    code: 'serialize_failed',
    message: expect.stringContaining('limit and after'),
  })
  const first = await client.call('session.list', { limit: 1_000 })
  expect(first.length).toBeGreaterThan(100)
  expect(first.map(({ id }) => id)).toEqual(ids.slice(0, first.length))
  expect((await client.listSessions()).map(({ id }) => id)).toEqual(ids)
}, 60_000)

test('an answer is cut at whole sessions and never empty', () => {
  const sessions = [3, 1, 2].map((n) => ({ id: `s-${n}`, name: 'ň'.repeat(10) }) as SessionInfo)
  const bytes = Buffer.byteLength(JSON.stringify(sessions[0]))
  const count = (maxBytes: number): number => fitting(sessions, maxBytes).length
  expect(Buffer.byteLength(JSON.stringify(sessions))).toBe(3 * bytes + 4)
  expect([count(3 * bytes + 5), count(3 * bytes + 3), count(2 * bytes + 4), count(1)]).toEqual([3, 2, 2, 1])
  expect(page(sessions).map(({ id }) => id)).toEqual(['s-1', 's-2', 's-3'])
})
