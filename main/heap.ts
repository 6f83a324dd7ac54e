import { setFlagsFromString } from 'node:v8'

/**
 * Keeps the heap of a process that lives for days near what it holds. Call it after the load: V8 flags set before it
 * make V8 refuse the code cache, and on a command line they cost Node its own one.
 */
export function keepHeapSmall(): void {
  // New objects keep the space they start with; by default a burst makes it 16 MB, twice, for good.
  setFlagsFromString('--semi-space-growth-factor=1')
  // Old ones are collected when they are a fifth more than after the last time; by default twice to four times as many.
  setFlagsFromString('--heap-growing-percent=20')
}
