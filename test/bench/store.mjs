// R1, R3: what many stored sessions cost a start and an update.
import { closeSync, fsyncSync, openSync, writeSync } from 'node:fs'
import { alternate, median, now } from './stats.mjs'
import { seed } from './seed.mjs'

export async function store(bench) {
  if ((await bench.product()) === undefined) return
  const many = bench.root()
  const few = bench.root()
  const manyIds = await seed(bench, many, 10_000)
  const fewIds = await seed(bench, few, 100)
  if (bench.wants('R1')) {
    const start = (root) => async () => {
      const { ms } = await root.start()
      await root.stopDaemon()
      return ms
    }
    const figures = await alternate(bench.rounds(5), { ours: start(many), peer: start(few) })
    bench.report('R1', { ...figures, peer: [] }, [`${median(figures.peer)?.toFixed(0)} ms with 100 stored`])
  }
  if (bench.wants('R3')) {
    const { wire: manyWire } = await many.start()
    const { wire: fewWire } = await few.start()
    let count = 0
    const update = (wire, ids) => async () => {
      const began = now()
      await wire.call('session.set_metadata', {
        session_id: ids[count % ids.length],
        metadata: { round: String(++count) },
      })
      return now() - began
    }
    const sides = { ours: update(manyWire, manyIds), peer: update(fewWire, fewIds) }
    await alternate(10, sides)
    const figures = await alternate(bench.quick ? 50 : 200, sides)
    bench.report('R3', figures, [`bare append + fsync ${(median(bareAppends(many)) * 1000).toFixed(0)} us`])
  }
  await bench.drop(many)
  await bench.drop(few)
}

function bareAppends(root) {
  const fd = openSync(`${root.path}/append.jsonl`, 'a', 0o600)
  const line = `${'x'.repeat(900)}\n`
  const times = []
  for (let i = 0; i < 100; i++) {
    const began = now()
    writeSync(fd, line)
    fsyncSync(fd)
    times.push(now() - began)
  }
  closeSync(fd)
  return times
}
