import { defineConfig } from 'vitest/config'

// The real agents: opt-in, because it installs them (over a gigabyte) and takes minutes. One file at a time: an agent
// that starts while others work is slower than anybody would wait for.
export default defineConfig({
  test: {
    include: ['test/agents/**/*.test.ts'],
    globalSetup: ['test/global-setup.ts'],
    pool: 'forks',
    maxWorkers: 1,
    fileParallelism: false,
    testTimeout: 180_000,
    hookTimeout: 900_000,
    teardownTimeout: 30_000,
  },
})
