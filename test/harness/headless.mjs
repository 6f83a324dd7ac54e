#!/usr/bin/env node
// A process whose first thread has ended while others run on: its state is that of a zombie. <file> gets its pid before.
// It does nothing and heeds no signal but SIGKILL.
import { createRequire } from 'node:module'
import { writeFileSync } from 'node:fs'

const koffi = createRequire(import.meta.url)('koffi')
for (const signal of ['SIGHUP', 'SIGTERM']) process.on(signal, () => undefined)
writeFileSync(process.argv[2], String(process.pid))
koffi.load('libc.so.6').func('void pthread_exit(void *)')(null)
