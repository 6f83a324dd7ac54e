/** session.list in pages: one line does not hold thousands of sessions. */
import type { MethodParams, Session } from './methods.ts'

type ListParams = NonNullable<MethodParams<'session.list'>>
export type SessionFilter = NonNullable<ListParams['filters']>[number]

/** The most a daemon takes as `limit`. */
const PAGE = 1_000
/** So few sessions fit one line however much metadata they carry: such a page was not cut, so it is the last. */
const SURELY_WHOLE = 8

/**
 * All sessions, page after page. A daemon ends a page early when the next session would not fit the line, so only an
 * empty or a very short page says that there are no more. One that knows no pages answers everything at once, and the
 * same again when it is asked for more.
 */
export async function allPages(
  list: (params: ListParams) => Promise<readonly Session[]>,
  filters: readonly SessionFilter[],
): Promise<readonly Session[]> {
  const asked = filters.length > 0 ? { filters: [...filters] } : {}
  const found: Session[] = []
  let last = ''
  for (;;) {
    const page = await list({ ...asked, limit: PAGE, ...(last === '' ? {} : { after: last }) })
    const more = page.filter((it) => it.id > last)
    found.push(...more)
    if (more.length <= SURELY_WHOLE || page.length > PAGE) return found
    last = more.reduce((highest, it) => (it.id > highest ? it.id : highest), last)
  }
}
