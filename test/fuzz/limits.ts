/** Bounds of the fuzzer: generous, because a busy machine is no defect. */
export const LIMITS = {
  /** A healthy process answers within this, whatever it was sent before. */
  answerMs: 10_000,
  /** A connection is answered or closed within this. */
  connectionMs: 20_000,
  removeMs: 30_000,
  /** Closed connections are gone within this. */
  settleMs: 10_000,
  spareDescriptors: 3,
  growthBytes: 128 * 1_048_576,
} as const

/** No spare workers: descriptors are counted. */
export const CONFIG_OF_FUZZ = ['[workers]', 'spares = 0', 'stop_grace_ms = 100', 'sweep_grace_ms = 1000', ''].join('\n')
