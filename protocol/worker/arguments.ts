/** Flags of a worker's command line, each with one value: what a supervisor writes and the worker reads. */
export const WORKER_FLAGS = [
  'session-id',
  'worker-generation',
  'daemon-socket-path',
  'control-socket-path',
  'state-root',
  'ready-fd',
  'service-config',
] as const
export type WorkerFlag = (typeof WORKER_FLAGS)[number]

/** `--flag value` for each flag given. */
export const workerArguments = (values: Readonly<Partial<Record<WorkerFlag, string>>>): string[] =>
  Object.entries(values).flatMap(([flag, value]) => [`--${flag}`, value])
