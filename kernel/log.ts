/** JSON logs (pino) with the size rules of the contract. No prompt, terminal byte, environment value or secret. */
import type { Logger } from 'pino'

export type Log = Pick<Logger, 'debug' | 'info' | 'warn' | 'error'> & { child(bindings: Record<string, unknown>): Log }
