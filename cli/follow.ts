/** A session's output on standard output as it comes. */
import { StringDecoder } from 'node:string_decoder'
import type { Client } from '../client/client.ts'
import { outputLook, type Cli } from './cli.ts'
import { lastingOptions } from './lasting.ts'
import { OutputClosed, out } from './out.ts'
import { safeStream } from './text.ts'

/** Resolves when the program ended and all was written, or when the reader left. A terminal gets text, a pipe the bytes. */
export async function follow(cli: Cli<Client>, sessionId: string, afterOffset: string): Promise<void> {
  const onTerminal = outputLook(cli.env).columns !== undefined
  const decoder = new StringDecoder('utf8')
  // A carriage return is layout only before a newline, which may be in the next piece.
  let held = ''
  const show = (text: string): void => {
    const whole = held + text
    held = whole.endsWith('\r') ? '\r' : ''
    out(safeStream(whole.slice(0, whole.length - held.length)))
  }
  try {
    for await (const bytes of cli.client.followOutput(sessionId, { ...lastingOptions(cli), afterOffset })) {
      if (onTerminal) show(decoder.write(bytes))
      else out(bytes)
    }
    if (onTerminal) out(safeStream(held + decoder.end()))
  } catch (failure) {
    if (!(failure instanceof OutputClosed)) throw failure
  }
}
