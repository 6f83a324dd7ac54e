/** Every directory and file the programs touch (contract/environment.md, head and §3). Pure: nothing is created here. */
export interface Paths {
  /** <runtime>: daemon.sock, daemon.lock, workers/<session>/control.sock. */
  readonly runtime: string
  /** True when XDG_RUNTIME_DIR was unset and the per-user directory below the temporary directory is used. */
  readonly runtimeIsFallback: boolean
  readonly config: string
  readonly data: string
  readonly state: string
  readonly cache: string
  readonly home: string
  readonly daemonSocket: string
  readonly logs: string
  /** Private control socket of one session's worker. */
  workerSocket(sessionId: string): string
  /** Journals of one session's workers: <state>/workers/<session>. */
  journals(sessionId: string): string
  /** TMPDIR of one session: <cache>/session-tmp/<store key>/<session>. */
  sessionTmp(sessionId: string): string
}
