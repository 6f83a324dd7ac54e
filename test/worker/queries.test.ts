/** Terminal queries are answered exactly once, whoever is attached, and never become somebody's typing. */
import { expect, test } from 'vitest'
import { bash, startWorker, until, type TestWorker } from './harness.ts'

/**
 * A program in raw mode: for each line it reads ("q" + hex of a query, or "l" to listen only), it asks and prints what
 * came back within half a second and when, as hex.
 */
const ASKER = `
import os,sys,termios,tty,time,select
tty.setraw(0)
def emit(t): os.write(1,(t+'\\r\\n').encode())
emit('READY')
line=b''
while True:
  b=os.read(0,1)
  if b!=b'\\n': line+=b; continue
  word=line.decode(); line=b''
  if word.startswith('q'): os.write(1,bytes.fromhex(word[1:]))
  start=time.time(); got=b''; first=None
  while time.time()-start<WAIT:
    r,_,_=select.select([0],[],[],0.02)
    if r:
      got+=os.read(0,4096)
      if first is None: first=time.time()-start
  emit('GOT[%s]%d' % (got.hex(), int((first or 0)*1000)))
`
let asked = 0

async function asker(waitSeconds = 0.5): Promise<TestWorker> {
  const worker = await startWorker()
  await worker.initialize(['/usr/bin/env', 'python3', '-c', ASKER.replace('WAIT', String(waitSeconds))])
  await worker.shows('READY')
  return worker
}

/** What the program read after asking `query`, and after how many milliseconds the first byte came. */
async function ask(worker: TestWorker, query: string): Promise<{ reply: string; ms: number }> {
  const from = (await worker.inspect()).next_offset
  asked++
  await worker.type(`${query === '' ? 'l' : `q${Buffer.from(query, 'latin1').toString('hex')}`}\n`, {
    writeId: `ask-${asked}`,
  })
  return until(`an answer to ${JSON.stringify(query)}`, async () => {
    const match = /GOT\[([0-9a-f]*)\](\d+)/.exec((await worker.read(from)).bytes.toString('latin1'))
    return match === null
      ? undefined
      : { reply: Buffer.from(match[1] ?? '', 'hex').toString('latin1'), ms: Number(match[2]) }
  })
}

const DETACHED: Record<string, [string, RegExp]> = {
  DA1: ['\x1b[c', /^\x1b\[\?62;22c$/],
  DA2: ['\x1b[>c', /^\x1b\[>0;276;0c$/],
  'DSR 5': ['\x1b[5n', /^\x1b\[0n$/],
  CPR: ['\x1b[6n', /^\x1b\[\d+;\d+R$/],
  DECXCPR: ['\x1b[?6n', /^\x1b\[\?\d+;\d+R$/],
  'OSC 11, BEL': ['\x1b]11;?\x07', /^\x1b\]11;rgb:[0-9a-f]{4}\/[0-9a-f]{4}\/[0-9a-f]{4}\x1b\\$/],
  'OSC 10, ST': ['\x1b]10;?\x1b\\', /^\x1b\]10;rgb:/],
  'OSC 12': ['\x1b]12;?\x07', /^\x1b\]12;rgb:/],
  'OSC 4': ['\x1b]4;9;?\x07', /^\x1b\]4;9;rgb:ffff\/0000\/0000\x1b\\$/],
  XTVERSION: ['\x1b[>q', /^\x1bP>\|pohunek\(\d\)\x1b\\$/],
  'kitty keyboard': ['\x1b[?u', /^\x1b\[\?0u$/],
  'DECRQM private': ['\x1b[?2026$p', /^\x1b\[\?2026;2\$y$/],
  'DECRQM ansi': ['\x1b[4$p', /^\x1b\[4;2\$y$/],
  'DECRQSS margins': ['\x1bP$qr\x1b\\', /^\x1bP1\$r1;24r\x1b\\$/],
  'size in characters': ['\x1b[18t', /^\x1b\[8;24;80t$/],
  'size in pixels': ['\x1b[14t', /^\x1b\[4;384;640t$/],
  'cell size': ['\x1b[16t', /^\x1b\[6;16;8t$/],
}

test('FC-7e2e: detached, each query gets one well-formed reply soon; the same after an attach and a detach', async () => {
  const worker = await asker(0.15)
  for (const [name, [query, expected]] of Object.entries(DETACHED)) {
    const { reply, ms } = await ask(worker, query)
    expect(reply, name).toMatch(expected)
    expect(ms, name).toBeLessThan(100)
  }
  const client = await worker.attach(80, 24)
  await client.sees('\x1b[?2026l')
  await client.detach()
  await worker.control.event('stream_closed')
  for (const name of ['DA1', 'CPR', 'OSC 11, BEL', 'kitty keyboard']) {
    const [query, expected] = DETACHED[name] as [string, RegExp]
    const { reply, ms } = await ask(worker, query)
    expect(reply, name).toMatch(expected)
    expect(ms, name).toBeLessThan(100)
  }
})

const answering =
  (tag: number) =>
  (bytes: Buffer): string => {
    const text = bytes.toString('latin1')
    // Only live output: a picture begins with CAN.
    if (text.startsWith('\x18')) return ''
    let answer = ''
    if (text.includes('\x1b[c')) answer += `\x1b[?6${tag};1c`
    if (text.includes('\x1b[6n')) answer += `\x1b[7;${tag}R`
    if (text.includes('\x1b]11;?')) answer += `\x1b]11;rgb:${tag}${tag}${tag}${tag}/0000/0000\x1b\\`
    return answer
  }

test('FC-c10b: one reply per query whatever the number of clients, and it is the newest one’s', async () => {
  const worker = await asker()
  const first = await worker.attach(80, 24, { answers: answering(1) })
  await first.sees('\x1b[?2026l')
  expect((await ask(worker, '\x1b[c')).reply).toBe('\x1b[?61;1c')
  expect((await ask(worker, '\x1b[6n')).reply).toBe('\x1b[7;1R')
  const second = await worker.attach(80, 24, { answers: answering(2) })
  await second.sees('\x1b[?2026l')
  expect((await ask(worker, '\x1b[c')).reply).toBe('\x1b[?62;1c')
  expect((await ask(worker, '\x1b[6n')).reply).toBe('\x1b[7;2R')
  expect((await ask(worker, '\x1b]11;?\x07')).reply).toBe('\x1b]11;rgb:2222/0000/0000\x1b\\')
  await second.detach()
  await worker.control.event('stream_closed')
  expect((await ask(worker, '\x1b[c')).reply).toBe('\x1b[?61;1c')
  await first.detach()
  await until('both are gone', () => worker.control.events.filter((it) => it.type === 'stream_closed').length === 2)
  // Learned from the client that had it.
  expect((await ask(worker, '\x1b]11;?\x07')).reply).toBe('\x1b]11;rgb:2222/0000/0000\x1b\\')
})

test('a client that does not answer is answered for, and its late reply is dropped', async () => {
  const worker = await asker(1.2)
  const client = await worker.attach(80, 24)
  await client.sees('\x1b[?2026l')
  const answer = ask(worker, '\x1b[c')
  await client.sees('\x1b[c')
  const { reply, ms } = await answer
  expect(reply).toBe('\x1b[?62;22c')
  expect(ms).toBeGreaterThan(400)
  client.type('\x1b[?61;1c')
  expect((await ask(worker, '')).reply).toBe('')
})

test('queries of a client that left are answered at once', async () => {
  const worker = await asker(1)
  const client = await worker.attach(80, 24)
  await client.sees('\x1b[?2026l')
  const answer = ask(worker, '\x1b[c')
  await client.sees('\x1b[c')
  client.socket.destroy()
  const { reply, ms } = await answer
  expect(reply).toBe('\x1b[?62;22c')
  expect(ms).toBeLessThan(400)
})

test('FC-496c: an attach brings the program not a byte, whatever it asked before', async () => {
  const worker = await asker(0.4)
  await ask(worker, '\x1b[6n\x1b[c\x1b]11;?\x07\x1b[?2026$p')
  const listening = ask(worker, '')
  const client = await worker.attach(80, 24, {
    answers: (bytes) =>
      bytes.includes('\x1b[6n') || bytes.includes('\x1b[c') || bytes.includes('\x1b]11;?') ? '\x1b[1;1R\x1b[?1c' : '',
  })
  await client.sees('\x1b[?2026l')
  expect((await listening).reply).toBe('')
})

test('FC-8bc0: a reply that comes after its asker has gone does not land on the prompt', async () => {
  const worker = await startWorker()
  await worker.initialize(['/bin/bash', '--norc', '--noprofile', '-i'], { environment: { PS1: 'PROMPT> ' } })
  await worker.shows('PROMPT>')
  const client = await worker.attach(80, 24)
  await client.sees('PROMPT>')
  await worker.type('sh -c "printf \'\\\\033]11;?\\\\a\'; exec sleep 0.3"\r')
  await client.sees('\x1b]11;?\x07')
  await worker.screen(
    'the next prompt',
    (it) => it.visible_lines.filter((line) => line.startsWith('PROMPT>')).length === 2,
  )
  client.type('\x1b]11;rgb:1111/2222/3333\x1b\\')
  await worker.type('echo after\r')
  const screen = await worker.screen('the echo', (it) => it.visible_lines.includes('after'))
  expect(screen.visible_lines.join('\n')).not.toMatch(/rgb|1111/)
})

test('keys that look like replies pass, replies nobody asked for do not', async () => {
  const worker = await asker(0.4)
  const client = await worker.attach(80, 24)
  await client.sees('\x1b[?2026l')
  const typed = async (text: string): Promise<string> => {
    const listening = ask(worker, '')
    await worker.inspect()
    client.type(text)
    return (await listening).reply
  }
  expect(await typed('\x1b[1;2R')).toBe('\x1b[1;2R')
  expect(await typed('\x1b')).toBe('\x1b')
  expect(await typed('\x1b[A\x1bOP\x1b[200~\x1b[?1;2c\x1b[201~\x1b[97;5u\x1b[<0;3;4M\x1b]x')).toBe(
    '\x1b[A\x1bOP\x1b[200~\x1b[?1;2c\x1b[201~\x1b[97;5u\x1b[<0;3;4M\x1b]x',
  )
  expect(await typed('a\x1b[?62;1cb\x1b[24;80Rc\x1b]11;rgb:1/2/3\x07d')).toBe('abcd')
})

test('a reply cut into single bytes is still one', async () => {
  const worker = await asker(0.6)
  const client = await worker.attach(80, 24)
  await client.sees('\x1b[?2026l')
  const answer = ask(worker, '\x1b]11;?\x07')
  await client.sees('\x1b]11;?')
  client.socket.setNoDelay(true)
  for (const byte of '\x1b]11;rgb:aaaa/bbbb/cccc\x1b\\') {
    client.type(byte)
    await new Promise(setImmediate)
  }
  expect((await answer).reply).toBe('\x1b]11;rgb:aaaa/bbbb/cccc\x1b\\')
})

test('a shell that asks at its start is not kept waiting', async () => {
  const worker = await startWorker()
  const began = performance.now()
  await worker.initialize(
    bash(
      'stty raw -echo; printf \'\\033[c\'; IFS= read -r -d c -t 5 reply; stty sane; echo "took${#reply}"; exec sleep 60',
    ),
  )
  await worker.shows('took8')
  expect(performance.now() - began).toBeLessThan(2_000)
})
