/** Every plugin of the build can be left out; the surface shrinks by exactly what it offered. */
import { mkdirSync } from 'node:fs'
import { dirname } from 'node:path'
import { expect, test } from 'vitest'
import { without, type Bootable } from '../../kernel/index.ts'
import { systemClock } from '../../kernel/clock.ts'
import { resolvePaths } from '../../kernel/paths.ts'
import { plugins } from '../../main/plugins.ts'
import { envBelow, privateRoot, testKernel } from '../harness/kernel.ts'

const all: readonly Bootable[] = plugins

/** `left` and, step by step, all that cannot be without it. */
function withDependents(left: Bootable): Bootable[] {
  const gone = [left]
  for (let before = 0; before !== gone.length;) {
    before = gone.length
    const offered = new Set(gone.flatMap((it) => (it.provides === undefined ? [] : [it.provides.id])))
    for (const it of all) {
      if (!gone.includes(it) && Object.values(it.needs).some((need) => offered.has(need.id))) gone.push(it)
    }
  }
  return gone
}

function start(list: readonly Bootable[]) {
  const root = privateRoot()
  const paths = resolvePaths(envBelow(root), {
    uid: process.geteuid?.() ?? 0,
    platform: process.platform,
    tmpdir: '/tmp',
  })
  for (const path of [paths.runtime, paths.state, paths.data, paths.logs]) {
    mkdirSync(dirname(path), { recursive: true, mode: 0o700 })
    mkdirSync(path, { recursive: true, mode: 0o700 })
  }
  return testKernel(list, [], { root, clock: systemClock })
}
const methodsOf = (list: readonly Bootable[]): string[] => list.flatMap((it) => Object.keys(it.contract.methods)).sort()

test.each(all.map((it) => [it.contract.name, it] as const))('boots without %s', async (_, left) => {
  const gone = withDependents(left)
  const names = gone.map((it) => it.contract.name)
  const kept = all.filter((it) => !gone.includes(it))
  const { methods, call, running } = await start(without(all, names))
  expect([...methods].sort()).toEqual(methodsOf(kept))
  for (const method of methodsOf(gone)) await expect(call(method)).rejects.toMatchObject({ code: 'method_not_found' })
  expect(
    running.kernel
      .surface()
      .plugins.map((it) => it.name)
      .sort(),
  ).toEqual(kept.map((it) => it.contract.name).sort())
})

test('boots with all of them', async () => {
  const { methods } = await start(all)
  expect([...methods].sort()).toEqual(methodsOf(all))
})
