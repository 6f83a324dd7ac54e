/** What of a session matters here. Pure. */
import type { SessionInfo } from '../sessions/types.ts'

/** Its program is gone, however. */
export const isOver = ({ state, runtime }: SessionInfo): boolean =>
  state === 'done' ||
  state === 'failed' ||
  state === 'stopped' ||
  runtime?.state === 'terminal' ||
  runtime?.state === 'lost'
