/**
 * That the adapter of protocol 3 knows every place: derived from the contracts of all plugins, so that a method or event
 * which comes to hold a key protocol 3 spells otherwise or lacks fails here until the adapter has its place.
 */
import { expect, test } from 'vitest'
import { plugins } from '../../main/plugins.ts'
import type { Contract } from '../../protocol/contract.ts'
import { downgradeEvent, downgradeResult, upgradeParams } from '../../protocol/window/v3.ts'
import type { Answer } from '../harness/wire.ts'

const RENAMED: Readonly<Record<string, string>> = {
  worker_instance_id: 'runtime_id',
  previous_worker_instance_id: 'previous_runtime_id',
}
const DROPPED = new Set(['native_last_activity_at', 'background'])
/** What users write is never walked. */
const FREE = new Set(['metadata'])

type Path = readonly string[]

/** Paths to keys that differ between the versions; `[]` is an element. */
function places(schema: Answer, at: Path = []): Path[] {
  if (schema === undefined || schema === null) return []
  if (schema.entries !== undefined)
    return Object.entries(schema.entries as Record<string, Answer>).flatMap(([key, held]) => {
      if (FREE.has(key)) return []
      const here = [...at, key]
      return key in RENAMED || DROPPED.has(key) ? [here] : places(held, here)
    })
  if (schema.item !== undefined) return places(schema.item, [...at, '[]'])
  if (schema.wrapped !== undefined) return places(schema.wrapped, at)
  if (Array.isArray(schema.options)) return schema.options.flatMap((it: Answer) => places(it, at))
  return []
}

const once = (paths: readonly Path[]): Path[] => [...new Map(paths.map((it) => [it.join('.'), it])).values()]

/** The smallest value with something at a path, in the spelling of 4 or of 3. */
function sample([step, ...rest]: Path, version: 3 | 4): Answer {
  if (step === undefined) return 'x'
  if (step === '[]') return [sample(rest, version)]
  if (version === 3 && DROPPED.has(step)) return {}
  return { [version === 3 ? (RENAMED[step] ?? step) : step]: sample(rest, version) }
}

const contracts: readonly Contract[] = plugins.map((it) => it.contract)
const inThree = ({ since = 3 }: { since?: number }): boolean => since <= 3
const methods = contracts.flatMap((it) => Object.entries(it.methods)).filter(([, it]) => inThree(it))
const events = contracts.flatMap((it) => Object.entries(it.events)).filter(([, it]) => inThree(it))

const rows = (found: readonly (readonly [string, Path[]])[]): [name: string, at: string, path: Path][] =>
  found.flatMap(([name, paths]) => once(paths).map((it): [string, string, Path] => [name, it.join('.'), it]))

const results = rows(methods.map(([name, { result }]) => [name, places(result)]))
const params = rows(methods.map(([name, it]) => [name, places(it.params)]))
const payloads = rows(events.map(([name, { payload }]) => [name, places(payload)]))

test('the contracts hold such keys', () => {
  expect(results.map(([name, at]) => `${name} ${at}`)).toContain('session.list [].runtime.worker_instance_id')
  expect(params.map(([name, at]) => `${name} ${at}`)).toContain('session.output runtime.worker_instance_id')
  expect(payloads.map(([name, at]) => `${name} ${at}`)).toContain('session_created session.runtime.worker_instance_id')
})

test.each(results)('the result of %s has %s in the shape of protocol 3', (method, _, path) => {
  expect(downgradeResult(method, sample(path, 4))).toEqual(sample(path, 3))
})

test.each(payloads)('the event %s has %s in the shape of protocol 3', (event, _, path) => {
  expect(downgradeEvent(event, sample(path, 4))).toEqual(sample(path, 3))
})

test.each(params)('the params of %s are taken with %s spelled as in protocol 3, and only so', (method, _, path) => {
  expect(upgradeParams(method, sample(path, 3))).toEqual(sample(path, 4))
  expect(() => upgradeParams(method, sample(path, 4))).toThrow(expect.objectContaining({ code: 'bad_request' }))
})
