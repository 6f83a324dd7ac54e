/** The kernel's whole public surface. */
export { boot, fake, type BootOptions, type CallOptions, type Fake, type RunningKernel } from './boot.ts'
export { delay, manualClock, systemClock, type Clock, type ManualClock } from './clock.ts'
export type { DaemonConfig } from './config.ts'
export type { EventBus, WireEvent } from './events.ts'
export { informing, named, TapFailure } from './hooks.ts'
export type { Log } from './log.ts'
export { bootFaults, startOrder, without } from './order.ts'
export type { Paths } from './paths.ts'
export {
  definePlugin,
  token,
  type AdmitRequest,
  type Bootable,
  type Call,
  type Diagnostics,
  type Finding,
  type Given,
  type Handler,
  type Handlers,
  type Kernel,
  type Lifecycle,
  type Needs,
  type Peer,
  type Plugin,
  type SetupContext,
  type SetupResult,
  type StoreFile,
  type StreamHandler,
  type Surface,
  type Token,
} from './plugin.ts'
export { Scope } from './scope.ts'
export type { RawStream } from './server/raw-stream.ts'
export { listen, type RunningServer, type ServerOptions } from './server/server.ts'
export type { Change, RecordTables, Table, TableSpec } from './store/tables.ts'
