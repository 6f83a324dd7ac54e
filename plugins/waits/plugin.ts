/** Wires waits: the journal of turns, and the two calls that wait for something of a session. */
import { join } from 'node:path'
import { definePlugin } from '../../kernel/plugin.ts'
import { openTables } from '../../kernel/store/record-log.ts'
import { Detection } from '../detection/api.ts'
import { Notifications } from '../notifications/api.ts'
import { Sessions } from '../sessions/api.ts'
import contract from './contract.ts'
import { TurnJournal } from './journal.ts'
import { Turns } from './turns.ts'
import { waitTurn, type TurnSources } from './wait-turn.ts'
import { wait } from './wait.ts'
import { Wakeups } from './wakeups.ts'

/** Shape of the lines of turns.jsonl. */
const SCHEMA = { schema: { current: 1 }, migrations: {} } as const
const storeFile = ({ data }: { data: string }): string => join(data, 'turns.jsonl')

export default definePlugin({
  contract,
  needs: { sessions: Sessions, detection: Detection, notifications: Notifications },
  stores: (paths) => [{ file: storeFile(paths), ...SCHEMA }],
  setup({ kernel, needs, scope, log }) {
    const { sessions, detection, notifications } = needs
    const { clock, lifecycle, paths } = kernel
    const store = openTables({ file: storeFile(paths), ...SCHEMA, clock, log })
    const journal = new TurnJournal(store, clock, log, scope.child('journal'))
    const turns = new Turns({ sessions, detection, notifications, journal, clock })
    const sources: TurnSources = {
      sessions,
      detection,
      wakeups: new Wakeups(sessions, detection),
      clock,
      journal,
      turns,
      limits: kernel.config.waits,
    }
    scope.defer('turn journal', async () => {
      await journal.flush()
      await store.close()
    })
    lifecycle.load.tapPromise('waits', async () => {
      await store.load()
      await journal.take()
      turns.recordMissedEnds()
    })
    return {
      methods: {
        'session.wait': (params, call) => wait(sources, params, call.signal),
        'session.wait_turn': (params, call) => waitTurn(sources, params, call.signal),
      },
    }
  },
})
