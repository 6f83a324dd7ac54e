/**
 * Remote addresses as they may be shown: who signs in, with what, and everything a query could carry are left out. Pure.
 * What has no known form is cut rather than trusted.
 */
import { replaceControls } from '../../protocol/words.ts'

const MAX_URL_CHARS = 1_024
/** The account every hosted repository is reached by over ssh; it names nobody. */
const NOBODY = 'git'

/** `address` without credentials. */
export function redacted(address: string): string {
  const plain = replaceControls(address, '').slice(0, MAX_URL_CHARS)
  const [, helper] = /^([A-Za-z0-9_+-]+)::/.exec(plain) ?? []
  // `ext::<command>` and the like: what follows means what the helper makes of it.
  if (helper !== undefined) {
    const rest = redacted(plain.slice(helper.length + 2))
    return rest.includes('://') ? `${helper}::${rest}` : `${helper}::…`
  }
  const url = /^([A-Za-z][A-Za-z0-9+.-]*):\/\/(.*)$/.exec(plain)
  if (url !== null) return withoutSecrets(url[1] ?? '', url[2] ?? '')
  // As git reads it: no slash before the first colon.
  const scp = /^([^/:]*):(.*)$/.exec(plain)
  if (scp !== null) {
    const [, host = '', path = ''] = scp
    const secret = host.includes('@') ? -1 : path.lastIndexOf('@')
    // `user:password@…` without a scheme is nothing git reaches, and still somebody's password.
    return secret === -1 ? `${withoutUser('ssh', host)}:${path}` : path.slice(secret + 1)
  }
  return plain
}

function withoutSecrets(scheme: string, rest: string): string {
  const [place = ''] = rest.split(/[?#]/)
  const slash = place.indexOf('/')
  const authority = slash === -1 ? place : place.slice(0, slash)
  const path = slash === -1 ? '' : place.slice(slash)
  // A password with an unescaped slash reaches into what looks like the path.
  const end = path.lastIndexOf('@')
  if (end !== -1 && (authority.includes(':') || authority.includes('@'))) return `${scheme}://${path.slice(end + 1)}`
  return `${scheme}://${withoutUser(scheme, authority)}${path}`
}

function withoutUser(scheme: string, authority: string): string {
  const at = authority.lastIndexOf('@')
  const host = authority.slice(at + 1)
  const user = at === -1 ? '' : authority.slice(0, at).split(':')[0]
  return user === NOBODY && /ssh/i.test(scheme) ? `${NOBODY}@${host}` : host
}
