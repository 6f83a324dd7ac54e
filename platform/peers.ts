/** Kernel identity of the process at the other end of a local connection. */
export interface Peer {
  readonly uid: number
  readonly gid: number
  readonly pid: number
}
