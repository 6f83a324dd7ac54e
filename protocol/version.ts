/** Public protocol window (contract: protocol.md §3). Daemon and clients advertise the same one. */
export const MIN_PROTOCOL_VERSION = 3
export const PROTOCOL_VERSION = 4

export interface VersionRange {
  readonly minimum: number
  readonly maximum: number
}
export const SUPPORTED_VERSIONS: VersionRange = { minimum: MIN_PROTOCOL_VERSION, maximum: PROTOCOL_VERSION }

/** Pure. Highest version both sides speak, or undefined when the ranges do not overlap. */
export function selectVersion(asked: VersionRange, served: VersionRange = SUPPORTED_VERSIONS): number | undefined {
  const highest = Math.min(asked.maximum, served.maximum)
  return highest >= Math.max(asked.minimum, served.minimum) ? highest : undefined
}
