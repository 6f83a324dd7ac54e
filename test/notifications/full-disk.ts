/** A disk that takes no more when told so: appends to record logs fail as they do there. */
import { onTestFinished, vi } from 'vitest'
import { LogFile } from '../../kernel/store/log-file.ts'

export interface Disk {
  /** Names of the files that take nothing; all of them when true. */
  full: boolean | readonly string[]
}

export function fakeDisk(): Disk {
  const disk: Disk = { full: false }
  // eslint-disable-next-line @typescript-eslint/unbound-method -- called with its own `this` below
  const append = LogFile.prototype.append
  const spy = vi.spyOn(LogFile.prototype, 'append').mockImplementation(function (this: LogFile, bytes: Buffer) {
    const { full } = disk
    const refuses = typeof full === 'boolean' ? full : full.some((it) => this.path.endsWith(it))
    if (refuses) return Promise.reject(Object.assign(new Error('ENOSPC: no space left on device'), { code: 'ENOSPC' }))
    return append.call(this, bytes)
  })
  onTestFinished(() => spy.mockRestore())
  return disk
}
