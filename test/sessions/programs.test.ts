import { chmodSync, mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { refused, Session } from '../harness/session.ts'
import { carrying } from '../harness/processes.ts'
import { monotonicMs, until } from '../harness/wait.ts'
import { station, type Station } from './station.ts'

function script(it: Station, name: string, text: string): string {
  const directory = join(it.roots.work, 'bin')
  mkdirSync(directory, { recursive: true })
  const path = join(directory, name)
  writeFileSync(path, text)
  chmodSync(path, 0o700)
  return path
}

/** A station whose login shell is the given script. */
async function withShell(text: string): Promise<Station> {
  const it = await station()
  const shell = script(it, 'shell', text)
  await it.restart({ env: { SHELL: shell, PATH: '/usr/bin:/bin' } })
  return it
}

test('FC-a823: a program only the login shell knows is found, and finds its own helpers there', async () => {
  const it = await withShell(
    '#!/bin/sh\nPATH=/nowhere:$HOME/.local/bin:$PATH\necho noise; for arg; do last=$arg; done; eval "$last"\n',
  )
  const tools = join(it.roots.home, '.local/bin')
  mkdirSync(tools, { recursive: true })
  for (const [name, text] of [
    ['agent', '#!/usr/bin/env helper\n'],
    ['helper', '#!/bin/sh\necho helped; sleep 1000\n'],
  ] as const) {
    writeFileSync(join(tools, name), text)
    chmodSync(join(tools, name), 0o700)
  }
  it.profile('agent', ['base = "shell"', 'program = "agent"'])
  const session = new Session(it, await it.create({ agent: 'agent' }))
  await session.untilScreen('helped')
})

test('FC-e4a2: a login shell that hangs is given up, without holding up other sessions, and its search is named', async () => {
  const it = await withShell('#!/bin/sh\nsleep 40\n')
  it.profile('unknown', ['base = "shell"', 'program = "not-there"'])
  it.profile('known', ['base = "shell"', 'program = "cat"'])
  const started = monotonicMs()
  const wire = await it.connect()
  const missing = refused(wire.call('session.new', { agent: 'unknown', cols: 80, rows: 24 }))
  expect((await it.create({ agent: 'known' })).state).toBe('running')
  const error = await missing
  expect(monotonicMs() - started).toBeLessThan(8_000)
  expect(error.code).toBe('agent_binary_missing')
  expect(error.body.msg).toContain('/usr/bin:/bin')
  expect(it.log.some((entry) => entry.level === 'warn' && String(entry.fields['problem']).includes('3000 ms'))).toBe(
    true,
  )
  await until('the asked shell is gone', () => !carrying(it.roots.base).some((seen) => seen.argv.includes('40')))
})

test('FC-e4a2: a login shell that prints a lot and reads the terminal is tolerated', async () => {
  const it = await withShell(
    '#!/bin/sh\nhead -c 1000000 /dev/zero | tr "\\0" x\nread answer\nPATH=/opt/found:$PATH\nfor arg; do last=$arg; done; eval "$last"\n',
  )
  it.profile('unknown', ['base = "shell"', 'program = "not-there"'])
  const error = await refused(it.create({ agent: 'unknown' }))
  expect(error.body.msg).toContain('/opt/found')
})
