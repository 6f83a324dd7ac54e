import { defineConfig } from 'vitest/config'

// Real processes, sockets and terminals: forks keep one file's descriptors and signals away from another's, two of them
// fit the smallest machine the suite runs on. Agents and benchmarks are run by commands of their own.
export default defineConfig({
  test: {
    include: ['test/**/*.test.ts'],
    exclude: ['test/agents/**', 'test/bench/**', '**/node_modules/**'],
    globalSetup: ['test/global-setup.ts'],
    pool: 'forks',
    maxWorkers: 2,
    testTimeout: 30_000,
    hookTimeout: 60_000,
    teardownTimeout: 30_000,
  },
})
