/** Where the user's service manager is asked, and what it means when it does not answer or refuses. */

/** Its name on the bus. */
export const SYSTEMD = 'org.freedesktop.systemd1'

/** The manager, or the bus to it, did not answer: nothing is known, and what was asked for may have happened or not. */
export class ManagerUnavailable extends Error {
  override readonly name = 'ManagerUnavailable'
}

/** Nobody answered in time: the next question would most likely wait as long. */
export class ManagerSilent extends ManagerUnavailable {}

/** The manager refused. `type` is the D-Bus error name. */
export class ManagerRefusal extends Error {
  override readonly name = 'ManagerRefusal'
  readonly type: string

  constructor(type: string, text: string) {
    super(text)
    this.type = type
  }
}

/** Errors with which the bus tells that no manager is behind the name. */
const NOBODY = /^org\.freedesktop\.DBus\.Error\.(ServiceUnknown|NameHasNoOwner|NoReply|Disconnected|Spawn\.)/

/**
 * Socket of the session bus: as $DBUS_SESSION_BUS_ADDRESS says, else where a user manager puts it. Undefined when there
 * is none we can use. Pure.
 */
export function busSocket(env: Readonly<Record<string, string | undefined>>): string | undefined {
  const { DBUS_SESSION_BUS_ADDRESS: address, XDG_RUNTIME_DIR: runtime } = env
  if (address === undefined || address === '') return runtime ? `${runtime}/bus` : undefined
  for (const one of address.split(';')) {
    const [, list = ''] = /^unix:(.*)$/.exec(one) ?? []
    for (const pair of list.split(',')) {
      const [, key, value = ''] = /^(path|abstract)=(.+)$/.exec(pair) ?? []
      const plain = decode(value)
      if (key !== undefined && plain !== undefined) return key === 'path' ? plain : `\0${plain}`
    }
  }
  return undefined
}

function decode(value: string): string | undefined {
  try {
    return decodeURIComponent(value)
  } catch {
    return undefined // not an escape of the D-Bus specification
  }
}

export const isRefusal = (failure: unknown, name: string): boolean =>
  failure instanceof ManagerRefusal && failure.type === `${SYSTEMD}.${name}`

/** A failure of dbus-next as one of these two. */
export function translated(failure: unknown): Error {
  if (failure instanceof ManagerUnavailable) return failure
  const { type, message: text } = failure as { type?: string; message: string }
  if (type === undefined) return new ManagerUnavailable(text, { cause: failure })
  return NOBODY.test(type) ? new ManagerUnavailable(text, { cause: failure }) : new ManagerRefusal(type, text)
}
