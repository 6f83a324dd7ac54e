import type { Handler } from '../../../kernel/plugin.ts'
import { MAX_RESULT_BYTES } from '../../../protocol/limits.ts'
import { utf8Bytes } from '../../../protocol/scalars.ts'
import type contract from '../contract.ts'
import { faults } from '../faults.ts'
import { boundedPicture, runtimeOf, snapshotOf, textRows } from '../observe.ts'
import type { Registry } from '../registry.ts'

/** Room for every key of the result beside its text. */
const OTHER_KEYS_BYTES = 1_024

/** The newest rows of the picture that fit one line. */
export const read =
  (registry: Registry): Handler<(typeof contract.methods)['session.read']> =>
  async ({ session_id, source, lines, format }) => {
    const session = registry.get(session_id)
    if (format === 'ansi') throw faults.session_read_ansi_unavailable({})
    const picture = boundedPicture(await snapshotOf(session))
    const rows = textRows(picture, source === 'recent_unwrapped')
    const text = newestFitting(rows.slice(-lines))
    return {
      ...runtimeOf(session),
      revision: String(picture.watermark),
      text: text.join('\n'),
      source_used: 'visible' as const,
      lines_requested: lines,
      truncated: text.length < rows.length,
      alternate_screen: picture.alternate_screen,
    }
  }

/** Pure. The newest rows whose text fits one response line. */
function newestFitting(rows: readonly string[]): string[] {
  let bytes = 0
  let from = rows.length
  while (from > 0) {
    bytes += utf8Bytes(JSON.stringify(rows[from - 1]))
    if (bytes > MAX_RESULT_BYTES - OTHER_KEYS_BYTES) break
    from--
  }
  return rows.slice(from)
}
