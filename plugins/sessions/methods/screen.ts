import type { Handler } from '../../../kernel/plugin.ts'
import type contract from '../contract.ts'
import { boundedPicture, fitting, runtimeOf, snapshotOf } from '../observe.ts'
import type { Registry } from '../registry.ts'

/** The picture after every byte that arrived before this request. */
export const screen =
  (registry: Registry): Handler<(typeof contract.methods)['session.screen']> =>
  async ({ session_id }) => {
    const session = registry.get(session_id)
    const picture = boundedPicture(await snapshotOf(session))
    return fitting({
      session_id,
      worker_id: session.record.worker.worker_id,
      ...runtimeOf(session),
      watermark: String(picture.watermark),
      dimensions: { cols: picture.dimensions.columns, rows: picture.dimensions.rows },
      cursor: { row: picture.cursor.row, col: picture.cursor.column, visible: picture.cursor.visible },
      alternate_screen: picture.alternate_screen,
      ...(picture.title === undefined ? {} : { title: picture.title }),
      ...(picture.progress === undefined ? {} : { progress: picture.progress }),
      visible_lines: picture.visible_lines,
    })
  }
