#!/usr/bin/env node
// A process whose environment the kernel withholds from its own user (PR_SET_DUMPABLE 0), as that of a program with a
// secret. <file> is made once it is so; from then on it does nothing.
import { createRequire } from 'node:module'
import { writeFileSync } from 'node:fs'

const koffi = createRequire(import.meta.url)('koffi')
const PR_SET_DUMPABLE = 4
koffi.load('libc.so.6').func('int prctl(int, ulong, ulong, ulong, ulong)')(PR_SET_DUMPABLE, 0, 0, 0, 0)
for (const signal of ['SIGHUP', 'SIGTERM']) process.on(signal, () => undefined)
writeFileSync(process.argv[2], String(process.pid))
setInterval(() => undefined, 2 ** 30)
