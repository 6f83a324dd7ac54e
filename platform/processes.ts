/** Facts about processes, behind one interface per operating system. Nothing is decided on a bare pid. */
export interface ProcessIdentity {
  readonly pid: number
  /** Kernel start identity within one boot: Linux /proc/<pid>/stat field 22, as a decimal string. */
  readonly startIdentity: string
}

export interface MarkedSweep {
  /** Processes whose environment carries the marker. */
  marked: ProcessIdentity[]
  /**
   * Same-user processes whose environment the kernel withholds, started after `since` and not proven to be no
   * descendants of it: they may belong.
   */
  unreadable: (ProcessIdentity & { command: string })[]
}

export interface Processes {
  /** Identity of a process that exists now, zombies included; undefined when there is none. */
  identify(pid: number): ProcessIdentity | undefined
  /** True for exactly this process while it runs; false for a zombie, a recycled pid or none. */
  isRunning(process: ProcessIdentity): boolean
  /** argv of a process, undefined when unreadable or gone. */
  argv(pid: number): string[] | undefined
  cwd(pid: number): string | undefined
  /**
   * What a process runs: its short name, and a value that is another one once it executed another program (or the same
   * one again). Undefined when gone.
   */
  program(pid: number): { readonly command: string; readonly image: string } | undefined
  /** Value of a variable in the environment of exactly this process; undefined without one, or when gone or unreadable. */
  variable(process: ProcessIdentity, name: string): string | undefined
  /** Foreground process group of the terminal `pid` controls, undefined when there is none. */
  foregroundGroup(pid: number): number | undefined
  /** Members of a process group or, by `session`, of a terminal session. Zombies excluded. */
  membersOf(ids: { group?: number; session?: number }): ProcessIdentity[]
  /** Children of `process`, theirs, and so on, as they are now; none once it is gone. Zombies excluded. */
  descendantsOf(process: ProcessIdentity): ProcessIdentity[]
  /** All processes of this user whose environment has `NAME=value`. */
  findMarked(marker: { name: string; value: string; since?: ProcessIdentity }): MarkedSweep
  /** Signals exactly this process: the identity is checked on a handle that pins it where the OS has one. */
  signal(process: ProcessIdentity, signal: NodeJS.Signals): 'sent' | 'gone' | 'denied'
  /** Identity of the running boot: decides whether a recorded start identity can still mean anything. */
  bootId(): string
}
