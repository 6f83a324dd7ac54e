/**
 * Rewrites a log while changes go on. The copy reads memory slice by slice, so it may hold changes that were not
 * durable when they were copied. It is right nevertheless, since
 *  1. every line that becomes durable after the start is appended to the copy, in order (the last one of a key wins);
 *  2. the copy takes the file's place only after everything added before its last slice is durable;
 *  3. a failed write spoils the copy, which is then thrown away: it may hold what was undone.
 */
import type { GroupCommit } from './group-commit.ts'
import type { LogFile } from './log-file.ts'

export interface CompactionRun {
  committed(lines: string, changes: number): void
  spoil(): void
}

/** Number of changes in the new log; undefined when the copy was spoiled. The file stays what it was if this throws. */
export async function compact(
  file: LogFile,
  commit: GroupCommit,
  slices: Iterable<string>,
  started: (run: CompactionRun) => void,
): Promise<number | undefined> {
  let late = ''
  let changes = 0
  let spoiled = false
  let replaced = false
  started({
    committed(lines, count) {
      late += lines // 1
      changes += count
    },
    spoil: () => void (spoiled = true),
  })
  const replacement = await file.replacement()
  try {
    for (const slice of slices) {
      if (spoiled) return undefined
      await replacement.write(slice)
      changes += countLines(slice)
    }
    await replacement.sync() // the bulk, while changes still go on
    await commit.exclusively(async () => {
      if (spoiled) return // 3
      if (late !== '') await replacement.write(late)
      await file.replaceBy(replacement)
      replaced = true
    }) // 2
    return replaced ? changes : undefined
  } finally {
    if (!replaced) await replacement.discard()
  }
}

function countLines(text: string): number {
  let count = 0
  for (let at = text.indexOf('\n'); at >= 0; at = text.indexOf('\n', at + 1)) count += 1
  return count
}
