/** Recorded journals of several releases: which of them are evidence, and of what. */
import { copyFileSync, mkdirSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { journalProblem, readJournals, type Journals } from '../../plugins/sessions/journal.ts'
import { REPOSITORY } from '../harness/roots.ts'
import { temporary } from '../platform/fixtures/temporary.ts'

const SESSION = 's-01JDFXA0000000000000000000'
const WORKER = 'w-0123456789abcdef0123456789abcdef'
const record = {
  worker_id: WORKER,
  generation: 2,
  process: { pid: 41001, start_identity: '123456' },
  boot_id: 'b',
  runtime_id: `r-${'a'.repeat(32)}`,
  launch_daemon_id: 'd-1',
}
/** A system on which no process of any journal runs. */
const quiet = { bootId: () => 'b', isRunning: () => false }

function recorded(name: string, { as = WORKER }: { as?: string } = {}): { directory: string; journals: Journals } {
  const directory = join(temporary(), SESSION)
  mkdirSync(directory)
  copyFileSync(join(REPOSITORY, 'test/fixtures/journals', `${name}.json`), join(directory, `${as}.json`))
  return { directory, journals: readJournals(directory, SESSION) }
}

test('the current schema is read', () => {
  const { journals } = recorded('schema-4-live')
  expect(journals).toEqual([
    {
      workerId: WORKER,
      generation: 2,
      runtimeId: record.runtime_id,
      worker: { pid: 41001, startIdentity: '123456' },
      bootId: '5d2f8e70-6a3c-4a61-9d0e-1f0f7f3f2c11',
      version: '0.1.0',
      protocol: { minimum: 6, maximum: 7 },
      phase: 'live',
      exit: undefined,
    },
  ])
  expect(journalProblem(record, journals, quiet)).toBeUndefined()
})

test('the journal of a worker of release 0.1.0, which does not write its protocol, is read', () => {
  const directory = join(temporary(), 's-01M8Q35PYZM9R002M01CC9A3E0')
  mkdirSync(directory)
  copyFileSync(join(REPOSITORY, 'test/fixtures/journals/schema-4-release-0.1.0.json'), join(directory, 'w-1.json'))
  expect(readJournals(directory, 's-01M8Q35PYZM9R002M01CC9A3E0')).toMatchObject([
    { generation: 1, version: '0.1.0', protocol: undefined, phase: 'live' },
  ])
})

test.each(['schema-4-terminal', 'schema-3-terminal'])('%s proves how the program ended', (name) => {
  const { journals } = recorded(name)
  const exit = { code: 3, stopped_by_user: false, exited_at_ms: Date.parse('2026-11-30T10:00:00.000Z') }
  expect(journals).toMatchObject([{ workerId: WORKER, generation: 2, phase: 'terminal', exit }])
  expect(journalProblem(record, journals, quiet)).toBeUndefined()
})

test('a journal of the previous schema that does not name its generation is no evidence', () => {
  const { journals, directory } = recorded('schema-3-without-generation')
  expect(journals).toEqual({ unreadable: expect.stringContaining(`${directory}/${WORKER}.json: `) as string })
  expect(journalProblem(record, journals, quiet)).toBeUndefined()
})

test.each([
  ['schema-2', 2],
  ['schema-5', 5],
])('%s is no evidence, and its worker is not managed', (name, schema) => {
  const { journals, directory } = recorded(name)
  const problem = `${directory}/${WORKER}.json has schema ${schema}, this daemon reads 3 and 4`
  expect(journals).toEqual({ unreadable: problem, foreign: { workerId: WORKER, schema } })
  expect(journalProblem(record, journals, quiet)).toEqual({
    found: 'incompatible',
    reason: 'worker_protocol_incompatible',
    problem,
  })
})

test('a foreign journal of another worker says nothing against the recorded one', () => {
  const { journals } = recorded('schema-5', { as: 'w-ffffffffffffffffffffffffffffffff' })
  expect(journals).toMatchObject({ foreign: { workerId: 'w-ffffffffffffffffffffffffffffffff' } })
  expect(journalProblem(record, journals, quiet)).toBeUndefined()
})
