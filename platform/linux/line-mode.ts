/** Whether the terminal of a process is in line mode (ICANON): then the kernel keeps at most one line of its input. */
import { closeSync, constants, openSync, readFileSync } from 'node:fs'
import { native } from './native.ts'
import { attempt } from './proc.ts'

// Unix98 terminals: majors 136 to 143, 256 minors each in order of the majors (Documentation/admin-guide/devices.txt).
const FIRST_MAJOR = 136
const LAST_MAJOR = 143
const MINORS = 256
/** c_lflag behind c_iflag, c_oflag and c_cflag; bit 1 is ICANON (asm-generic/termbits.h). */
const LFLAG_OFFSET = 12
const ICANON = 0x2
const TERMIOS_BYTES = 256

/** False also where it cannot be known: gone, no terminal, not permitted. */
export function lineMode(pid: number): boolean {
  const path = terminalOf(pid)
  if (path === undefined) return false
  const fd = attempt(() => openSync(path, constants.O_RDONLY | constants.O_NOCTTY | constants.O_NONBLOCK))
  if (fd === undefined) return false
  try {
    const termios = Buffer.alloc(TERMIOS_BYTES)
    return native().tcgetattr(fd, termios) === 0 && (termios.readUInt32LE(LFLAG_OFFSET) & ICANON) !== 0
  } finally {
    closeSync(fd)
  }
}

/** /dev/pts/N from tty_nr, field 7 of /proc/<pid>/stat. */
function terminalOf(pid: number): string | undefined {
  const stat = attempt(() => readFileSync(`/proc/${pid}/stat`, 'latin1'))
  const device = Number(stat?.slice(stat.lastIndexOf(')') + 2).split(' ')[4])
  const major = (device >> 8) & 0xfff
  const minor = (device & 0xff) | ((device >> 12) & 0xfff00)
  if (!Number.isInteger(device) || major < FIRST_MAJOR || major > LAST_MAJOR) return undefined
  return `/dev/pts/${(major - FIRST_MAJOR) * MINORS + minor}`
}
