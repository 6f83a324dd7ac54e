/** What session.detection shows: the regions a manifest reads, as they are now. Pure. */
import type { Manifest } from './manifest.ts'
import { regionText, spellRegion, type Picture, type RegionKind } from './regions.ts'

/** Bytes of the answer as JSON; the rest of the 1 MiB line is for the envelope. */
export const MAX_DETECTION_BYTES = 1_048_418

export interface RegionPreview {
  readonly kind: RegionKind
  /** As the manifest spells it, e.g. `bottom_lines(8)`. */
  readonly region: string
  readonly text: string
}

/** One preview of each region some rule reads, in the order the manifest names them first. */
export function previewsOf(manifest: Manifest, picture: Picture): RegionPreview[] {
  const previews = new Map<string, RegionPreview>()
  for (const { region } of manifest.rules) {
    const spelled = spellRegion(region)
    if (previews.has(spelled)) continue
    previews.set(spelled, { kind: region.kind, region: spelled, text: regionText(region, picture) })
  }
  return [...previews.values()]
}

/** Bytes of the result on the wire, to compare with MAX_DETECTION_BYTES before it is sent. */
export const detectionBytes = (result: unknown): number => Buffer.byteLength(JSON.stringify(result))
