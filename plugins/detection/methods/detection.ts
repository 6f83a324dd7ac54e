import type { Handler } from '../../../kernel/plugin.ts'
import { sessionFaults, type SessionService } from '../../sessions/api.ts'
import type contract from '../contract.ts'
import { faults } from '../faults.ts'
import type { Manifests } from '../manifests.ts'
import { detectionBytes, MAX_DETECTION_BYTES, previewsOf } from '../previews.ts'
import { REGION_KINDS } from '../regions.ts'

/** The regions as the terminal shows them now; none where no manifest reads it. */
export const detection =
  (
    sessions: Pick<SessionService, 'get' | 'snapshot'>,
    manifests: Manifests,
  ): Handler<(typeof contract.methods)['session.detection']> =>
  async ({ session_id }) => {
    const session = sessions.get(session_id)
    if (session === undefined) throw sessionFaults.session_not_found({ id: session_id })
    const manifest = manifests.of(session.agent, session.agent_base)
    const picture = await sessions.snapshot(session_id)
    const result = {
      session_id,
      supported_regions: [...REGION_KINDS],
      previews: manifest === undefined ? [] : previewsOf(manifest.whole, picture),
    }
    const bytes = detectionBytes(result)
    if (bytes > MAX_DETECTION_BYTES)
      throw faults.session_detection_response_too_large({ id: session_id, bytes, limit: MAX_DETECTION_BYTES })
    return result
  }
