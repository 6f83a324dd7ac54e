/** <config>/config.toml: optional, every key has a default, unknown keys are refused with file and key. */
export interface DaemonConfig {
  readonly supervisor: 'auto' | 'detached' | 'systemd'
  /** Plugins left out of this run, by name. */
  readonly without: readonly string[]
  readonly workers: {
    /** Warm workers kept for the next session.new. */
    readonly spares: number
    readonly outputHistoryBytes: number
    readonly subscriberQueueBytes: number
    readonly terminalRetentionMs: number
    readonly stopGraceMs: number
    readonly sweepGraceMs: number
  }
  readonly environment: {
    /** Names passed from the daemon's environment to sessions beside the contract's default list; `X_*` is a prefix. */
    readonly allowlist: readonly string[]
    /** Directories searched for programs before PATH. */
    readonly searchPath: readonly string[]
  }
  readonly input: { readonly startupGraceMs: number; readonly submitDelayMs: number; readonly writeStallTimeoutMs: number }
  readonly logLevel: 'debug' | 'info' | 'warn' | 'error'
  /** Raw TOML tables of plugins, by plugin name; each plugin validates its own. */
  readonly plugins: Readonly<Record<string, unknown>>
}
