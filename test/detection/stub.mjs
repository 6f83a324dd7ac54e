#!/usr/bin/env -S node
// An agent that does what its test says: it connects to the socket named by its last argument, writes what it is sent
// to its terminal, and sends back what is typed.
import { spawn } from 'node:child_process'
import { connect } from 'node:net'
import { writeSync } from 'node:fs'

const control = connect(process.argv.at(-1))
const tell = (message) => control.write(`${JSON.stringify(message)}\n`)
let onSubmit = []

function put(text) {
  const bytes = Buffer.from(text)
  for (let at = 0; at < bytes.length;) {
    try {
      at += writeSync(1, bytes, at)
    } catch (problem) {
      if (problem.code !== 'EAGAIN') throw problem
    }
  }
}

function run(steps) {
  const [step, ...rest] = steps
  if (step === undefined) return
  if (typeof step === 'number') setTimeout(() => run(rest), step)
  else {
    put(step)
    run(rest)
  }
}

const orders = {
  write: (text) => put(text),
  steps: (steps) => run(steps),
  submit: (steps) => (onSubmit = steps),
  later: ({ ms, tag }) => setTimeout(() => tell({ tag }), ms),
  run: ([program, ...args]) => spawn(program, args, { stdio: 'inherit' }).on('exit', (code) => tell({ ran: code })),
  exit: (code) => process.exit(code),
}

process.stdin.setRawMode?.(true)
process.stdin.on('data', (chunk) => {
  tell({ typed: chunk.toString() })
  if (chunk.includes(0x0d)) run(onSubmit)
})
let pending = ''
control.on('data', (chunk) => {
  pending += chunk
  for (let at = pending.indexOf('\n'); at >= 0; at = pending.indexOf('\n')) {
    const [[order, value]] = Object.entries(JSON.parse(pending.slice(0, at)))
    pending = pending.slice(at + 1)
    orders[order](value)
    tell({ did: order })
  }
})
control.on('close', () => process.exit(0))
control.on('error', () => process.exit(1))
tell({ pid: process.pid })
