/**
 * The attach client: one terminal, one session after the other. A session's stream may be opened many times (reconnect,
 * return from the menu, another session); what the person sees is one picture. Long because one class owns the phase: who
 * gets a key and who gets output is decided here alone.
 */
import { after } from '../../client/clock.ts'
import { ClientError } from '../../client/errors.ts'
import type { Attachment, Client } from '../../client/client.ts'
import { Interruptions } from '../../client/reconnect.ts'
import { Fault, messageOf } from '../../protocol/fault.ts'
import type { Cli } from '../cli.ts'
import { fail } from '../run.ts'
import { clip, safeLine } from '../text.ts'
import { loadAttachConfig } from './config.ts'
import { EXIT_COULD_NOT_ATTACH, exitCodeOf, lineOf, type Ending } from './ending.ts'
import { besideDirectory, factsOf, removedByMenu, targetOf, usedRows, whyOver, whyRefused } from './fate.ts'
import { KeyReader, type KeyEvent } from './keys.ts'
import { FIRST, keysIn, paint, press, type Menu, type MenuAction, type MenuFacts } from './menu.ts'
import { ROW_BELOW, SAME_ROW } from './reset.ts'
import { SizeTeller } from './sizes.ts'
import { Terminal, checkTerminal, say, type Size } from './terminal.ts'

/** Output kept while the menu is open; what is over it is not replayed, the screen is painted anew instead. */
const MENU_BUFFER_BYTES = 1_048_576
/** Facts for the menu's header must not keep it from opening. */
const FACTS_MS = 1_000
/** As session new: the agent may be asked for its release first. */
const NEW_MS = 30_000
const CONTROL_BACKSLASH = Uint8Array.of(0x1c)
const BELL = '\x07'

interface MenuPhase {
  readonly at: 'menu'
  menu: Menu
  kept: Buffer[]
  bytes: number
  overflow: boolean
  /** Something is being done that was chosen; other keys wait for nothing and do nothing. */
  busy: boolean
  /** The program's own screen when the menu opened. */
  readonly alternate: boolean
  readonly cursorShown: boolean
}

type Phase =
  | { readonly at: 'live' }
  | MenuPhase
  /** No stream; keys are refused. */
  | { readonly at: 'gap' }

/** Attaches to a target as typed by the user; answers the exit code. */
export async function attachTo(cli: Cli<Client>, target: string): Promise<number> {
  let id: string
  try {
    checkTerminal()
    id = await cli.session(target)
  } catch (failure) {
    const code = fail(failure, false)
    return failure instanceof Fault && failure.code === 'cli_usage' ? code : EXIT_COULD_NOT_ATTACH
  }
  return await attach(cli, id)
}

export async function attach(cli: Cli<Client>, sessionId: string): Promise<number> {
  const { reconnect, problems } = loadAttachConfig(cli.roots.config)
  for (const problem of problems) say(`warning: attach.conf: ${problem}`)
  const client = new AttachClient(cli.client, new Interruptions(reconnect), cli)
  const { ending, id } = await client.run(sessionId)
  const line = lineOf(ending, ending.kind === 'detached' ? await targetOf(cli.client, id) : id)
  if (line !== undefined) say(line)
  return exitCodeOf(ending)
}

const unknownSession = (id: string): MenuFacts => ({
  name: id,
  host: 'local',
  project: undefined,
  branch: undefined,
  cwd: undefined,
  state: 'unknown',
})

class AttachClient {
  readonly #client: Client
  readonly #cli: Cli
  readonly #interruptions: Interruptions
  readonly #terminal = new Terminal()
  readonly #keys = new KeyReader()
  #hold: Disposable | undefined
  #phase: Phase = { at: 'gap' }
  #id = ''
  /** What the menu's header shows: as it was last known. */
  #facts: MenuFacts = unknownSession('')
  #attachment: Attachment | undefined
  #sizes: SizeTeller | undefined
  #leave: (ending: Ending) => void = () => undefined
  /** Input that came before the first stream was open. */
  #early: Uint8Array[] = []

  constructor(client: Client, interruptions: Interruptions, cli: Cli) {
    this.#client = client
    this.#cli = cli
    this.#interruptions = interruptions
  }

  async run(sessionId: string): Promise<{ ending: Ending; id: string }> {
    this.#id = sessionId
    const restore = (): void => this.#terminal.restore(this.#usedRows)
    process.once('exit', restore)
    process.once('uncaughtException', (failure) => {
      restore()
      say(`error: ${failure.stack ?? failure.message}`)
      process.exit(EXIT_COULD_NOT_ATTACH)
    })
    for (const signal of ['SIGTERM', 'SIGHUP', 'SIGINT', 'SIGQUIT'] as const) {
      process.on(signal, () => this.#leave({ kind: 'signal', signal }))
    }
    process.on('SIGWINCH', () => this.#resized())
    process.on('SIGCONT', () => this.#terminal.resumed())
    try {
      for (;;) {
        const ending = await this.#session()
        if (ending.kind !== 'switch') return { ending, id: this.#id }
        this.#id = ending.sessionId
      }
    } finally {
      this.#hold?.[Symbol.dispose]()
      this.#sizes?.[Symbol.dispose]()
      restore()
    }
  }

  /** One session from its first stream to an ending. */
  async #session(): Promise<Ending> {
    const left = new Promise<Ending>((resolve) => (this.#leave = resolve))
    const watch = (): Promise<void> => new Promise((resolve) => (this.#ended = resolve))
    let over = watch()
    this.#attachment = undefined
    const refusal = await Promise.race([left, this.#open({})])
    if (refusal instanceof Error) return await whyRefused(this.#client, this.#id, refusal)
    if (refusal !== undefined) return refusal
    this.#facts = unknownSession(this.#id)
    void this.#learn()
    for (;;) {
      const ending = await Promise.race([left, over.then(() => this.#why())])
      if (ending !== 'interrupted') {
        await this.#close(ending)
        return ending
      }
      over = watch()
      const failed = await Promise.race([left, this.#bringBack()])
      if (failed !== undefined) {
        await this.#close(failed)
        return failed
      }
    }
  }

  /**
   * Opens a stream of the session and shows it; answers the error it could not be opened with. A stream opened before is
   * replaced: its end is not told any more.
   */
  async #open(options: { repaint?: boolean }): Promise<Error | undefined> {
    // The first bytes may come before raw mode is complete: they wait for it.
    const waiting: Buffer[] = []
    const mine = { shown: false, over: false }
    const taker = {
      data: (chunk: Buffer): boolean => {
        if (mine.shown) return this.#current === mine ? this.#take(chunk) : true
        waiting.push(Buffer.from(chunk))
        return false
      },
      end: () => {
        mine.over = true
        if (this.#current === mine) this.#ended()
      },
    }
    try {
      if (!options.repaint) await this.#cli.ensureDaemon()
      const size = this.#terminal.size
      const history = options.repaint ? { historyRows: 0 } : {}
      // Asked first: the terminal is made ready while the daemon answers.
      const opening = this.#client.attachRaw(this.#id, { ...size, ...history }, taker)
      const [attachment] = await Promise.all([opening, this.#start()])
      this.#attachment?.stream.close()
      this.#attachment = attachment
      this.#current = mine
      this.#noticed = false
      this.#phase = { at: 'live' }
      this.#watchSize(attachment, size)
      mine.shown = true
      let room = true
      for (const chunk of waiting) room = this.#take(chunk) && room
      if (room) attachment.stream.resume()
      for (const bytes of this.#early.splice(0)) attachment.stream.write(bytes)
      if (mine.over) this.#ended()
      return undefined
    } catch (failure) {
      return failure instanceof Error ? failure : new Error(String(failure))
    }
  }
  #current: object | undefined
  #ended: () => void = () => undefined

  #watchSize({ sessionId, streamId }: Attachment, told: Size | undefined): void {
    this.#sizes?.[Symbol.dispose]()
    this.#sizes = new SizeTeller((it) =>
      this.#client.call('session.resize', { session_id: sessionId, ...it, stream_id: streamId }),
    )
    const now = this.#terminal.size
    if (now !== undefined && (now.cols !== told?.cols || now.rows !== told.rows)) this.#sizes.set(now)
  }

  /** Raw mode and input, once. */
  async #start(): Promise<void> {
    if (this.#listening) return
    this.#listening = true
    const raw = this.#terminal.raw()
    this.#terminal.onRoom = () => this.#attachment?.stream.resume()
    this.#terminal.onClosed = () => this.#leave({ kind: 'output_closed' })
    this.#terminal.listen(
      (chunk) => this.#typed(chunk),
      () => this.#inputEnded(),
    )
    await raw
  }
  #listening = false

  async #why(): Promise<Ending | 'interrupted'> {
    // The stream ends before the removal is answered, and only the answer says what became of its worktree.
    const removed = await this.#removing?.catch(() => undefined)
    return removed ?? (await whyOver(this.#client, this.#id, this.#attachment?.streamId, this.#removing !== undefined))
  }
  /** The removal that was chosen in the menu. */
  #removing: Promise<Ending> | undefined

  /** Answers an ending when the stream cannot be had again. */
  async #bringBack(): Promise<Ending | undefined> {
    if (this.#phase.at === 'menu') this.#frozenPicture(this.#phase)
    this.#phase = { at: 'gap' }
    this.#interruptions.begin()
    let last: Error = new ClientError({ class: 'transport', code: 'framing', msg: 'the stream ended' })
    this.#notice('the connection was lost; reconnecting (Ctrl-] leaves)')
    while (await this.#interruptions.daemonBack(() => this.#reachable())) {
      const back = await this.#open({ repaint: true })
      if (back === undefined) return undefined
      const final = await this.#why()
      if (final !== 'interrupted') return final
      last = back
    }
    return {
      kind: 'dropped',
      failure: { msg: `the connection was lost: ${last.message}`, recover: `pohunek attach ${this.#id}` },
    }
  }

  /** Reconnecting waits for a daemon but starts none: somebody may have stopped it on purpose. */
  async #reachable(): Promise<boolean> {
    try {
      await this.#client.connect()
      return true
    } catch {
      return false
    }
  }

  #take(chunk: Buffer): boolean {
    const phase = this.#phase
    if (this.#over) return true
    if (phase.at !== 'menu') return this.#terminal.write(chunk)
    if (phase.bytes + chunk.length > MENU_BUFFER_BYTES) {
      phase.overflow = true
      phase.kept = []
    } else if (!phase.overflow) {
      phase.kept.push(Buffer.from(chunk))
      phase.bytes += chunk.length
    }
    return true
  }

  #typed(chunk: Buffer): void {
    if (this.#over) return
    this.#hold?.[Symbol.dispose]()
    this.#hold = undefined
    // Without a terminal no key has a meaning: what a pipe carries belongs to the program.
    if (!this.#terminal.interactive) return this.#pass(chunk)
    this.#handle(this.#keys.push(chunk))
    const { holdMs } = this.#keys
    if (holdMs !== undefined) this.#hold = after(holdMs, () => this.#handle(this.#keys.flush()))
  }

  #handle(events: readonly KeyEvent[]): void {
    for (const event of events) {
      if ('key' in event) {
        if (event.key === 'detach') this.#leave({ kind: 'detached' })
        else if (this.#phase.at === 'live') this.#openMenu()
        else if (this.#phase.at === 'menu' && !this.#phase.busy)
          void this.#closeMenu().then(() => this.#attachment?.stream.write(CONTROL_BACKSLASH))
      } else if (this.#phase.at === 'menu') {
        for (const key of keysIn(event.pass)) this.#pressed(key)
      } else this.#pass(event.pass)
    }
  }

  #pass(bytes: Uint8Array): void {
    if (this.#phase.at === 'live') this.#attachment?.stream.write(bytes)
    else if (this.#attachment === undefined) this.#early.push(Uint8Array.from(bytes))
    else this.#refuseKey()
  }

  #refuseKey(): void {
    this.#notice('not connected; the key was not sent')
    if (this.#terminal.size !== undefined) this.#terminal.write(Buffer.from(BELL))
  }

  #inputEnded(): void {
    // A terminal that is gone takes the client with it; a pipe that ended leaves it showing output.
    if (this.#terminal.interactive) this.#leave({ kind: 'signal', signal: 'SIGHUP' })
  }

  #resized(): void {
    this.#terminal.refreshSize()
    const size = this.#terminal.size
    if (size === undefined) return
    this.#sizes?.set(size)
    if (this.#phase.at === 'menu') this.#paintMenu()
  }

  /**
   * A line for the person: over the last row while the program goes on and will paint there again, on a row of its own
   * below a picture that stands still, plain where there is no picture.
   */
  #notice(text: string): void {
    const size = this.#terminal.size
    if (size === undefined) return say(text)
    const still = this.#phase.at === 'gap'
    const line = `\x1b[0;7m ${clip(safeLine(text), Math.max(1, size.cols - 3))} \x1b[0m\x1b[K`
    const place = !still ? `\x18\x1b7\x1b[?6l\x1b[${size.rows};1H` : this.#noticed ? SAME_ROW : ROW_BELOW
    this.#terminal.write(Buffer.from(`${place}${line}${still ? '' : '\x1b8'}`))
    this.#noticed = still
  }
  /** The row of our own below a still picture is there. */
  #noticed = false

  /** Shows what the menu covered and ends the stream. Until it is closed the session has the size it is shown at. */
  async #close(ending: Ending): Promise<void> {
    if (this.#phase.at === 'menu') this.#frozenPicture(this.#phase)
    this.#phase = { at: 'gap' }
    if (ending.kind !== 'switch') {
      this.#over = true
      const size = this.#noticed ? undefined : this.#terminal.size
      this.#usedRows = await usedRows(this.#client, this.#id, ending, size)
    }
    this.#attachment?.stream.close()
    this.#sizes?.[Symbol.dispose]()
  }
  /** Nothing more is shown and no key counts; only the terminal is still to be put back. */
  #over = false
  /** Rows of the picture that stay, where they are known. */
  #usedRows: number | undefined

  /**
   * Needs nobody: on the normal screen the terminal's own alternate one takes the menu and gives the frozen picture
   * back. A program that is on the alternate screen already is painted anew afterwards.
   */
  #openMenu(): void {
    const { alternate, cursorShown } = this.#terminal.shown
    const phase: MenuPhase = {
      at: 'menu',
      menu: FIRST,
      kept: [],
      bytes: 0,
      overflow: false,
      busy: false,
      alternate,
      cursorShown,
    }
    this.#phase = phase
    if (!alternate) this.#terminal.write(Buffer.from('\x1b[?1049h'))
    this.#paintMenu()
    void this.#learn().then(() => {
      if (this.#phase === phase) this.#paintMenu()
    })
  }

  /** Facts for the header, where a daemon tells them. */
  async #learn(): Promise<void> {
    const id = this.#id
    const session = await this.#client.call('session.inspect', id, { timeoutMs: FACTS_MS }).catch(() => undefined)
    if (id !== this.#id) return
    this.#facts = session === undefined ? { ...this.#facts, state: 'state unknown' } : factsOf(session)
  }

  #paintMenu(): void {
    const size = this.#terminal.size
    if (this.#phase.at === 'menu' && size !== undefined) {
      this.#terminal.write(Buffer.from(paint(this.#phase.menu, this.#facts, size.cols, size.rows)))
    }
  }

  #pressed(key: string): void {
    const phase = this.#phase
    if (phase.at !== 'menu' || phase.busy) return
    const { menu, action } = press(phase.menu, key, this.#facts.named)
    phase.menu = menu
    if (action === undefined) this.#paintMenu()
    else void this.#act(action)
  }

  async #act(action: MenuAction): Promise<void> {
    const phase = this.#phase
    if (phase.at === 'menu') phase.busy = true
    try {
      switch (action.do) {
        case 'close':
          return await this.#closeMenu()
        case 'detach':
          return this.#leave({ kind: 'detached' })
        case 'kill':
          await this.#daemon()
          await this.#closeMenu()
          await this.#client.call('session.stop', this.#id, { timeoutMs: 40_000 })
          return
        case 'terminate':
          await this.#daemon()
          await this.#closeMenu()
          this.#removing = this.#client.call('session.remove', this.#id, { timeoutMs: 40_000 }).then(removedByMenu)
          return this.#leave(await this.#removing)
        case 'new':
          await this.#daemon()
          return this.#leave({ kind: 'switch', sessionId: await this.#beside() })
        case 'rename':
          await this.#daemon()
          await this.#client.call('session.rename', { session_id: this.#id, name: action.name })
          void this.#learn()
          return await this.#closeMenu()
      }
    } catch (failure) {
      this.#removing = undefined
      if (this.#phase.at === 'menu') this.#tell(messageOf(failure))
      else this.#notice(messageOf(failure))
    } finally {
      if (phase.at === 'menu') phase.busy = false
    }
  }

  /** What is chosen needs a daemon: where none answers one is started, and the menu says so. */
  async #daemon(): Promise<void> {
    await this.#cli.ensureDaemon((line) => this.#tell(line.trim()))
  }

  /** A line inside the menu. */
  #tell(message: string): void {
    if (this.#phase.at !== 'menu') return
    this.#phase.menu = { view: 'choose', message }
    this.#paintMenu()
  }

  /** A new session of the same agent where the program is now. */
  async #beside(): Promise<string> {
    const session = await this.#client.call('session.inspect', this.#id)
    const size = this.#terminal.size ?? { cols: 80, rows: 24 }
    const path = this.#cli.env.PATH
    const made = await this.#client.call(
      'session.new',
      {
        agent: session.agent,
        cwd: besideDirectory(session),
        ...size,
        ...(path === undefined ? {} : { search_path: path }),
      },
      { timeoutMs: NEW_MS },
    )
    return made.id
  }

  /** Back to the frozen picture and what came meanwhile, or to a new picture where that cannot be had. */
  async #closeMenu(): Promise<void> {
    const phase = this.#phase
    if (phase.at !== 'menu') return
    if (!phase.alternate && !phase.overflow) {
      this.#frozenPicture(phase)
      this.#phase = { at: 'live' }
      return
    }
    // A fresh stream begins with the whole picture. Only a daemon opens one.
    phase.busy = true
    let problem: string | undefined
    try {
      await this.#daemon()
      problem = (await this.#open({ repaint: true }))?.message
    } catch (failure) {
      problem = messageOf(failure)
    }
    if (this.#phase !== phase) return
    this.#frozenPicture(phase)
    this.#phase = { at: 'live' }
    if (problem !== undefined) this.#notice(`${problem}; the picture is not complete until the program paints it again`)
  }

  /** What the menu covered, as far as it is here. */
  #frozenPicture({ alternate, cursorShown, overflow, kept }: MenuPhase): void {
    const cursor = `\x1b[?25${cursorShown ? 'h' : 'l'}`
    this.#terminal.write(Buffer.from(alternate ? `\x1b[0m\x1b[H\x1b[2J${cursor}` : `\x1b[?1049l${cursor}`))
    if (!overflow) this.#terminal.write(Buffer.concat(kept))
  }
}
