/** Drives pohunek sessions from a program: `const client = await connect(); await client.listSessions()`. */
export { AttachStream } from './attach-stream.ts'
export { localSocket } from './caller.ts'
export type { ConnectOptions, RequestOptions } from './caller.ts'
export { connect, Client } from './client.ts'
export type { AttachOptions, StartOptions } from './client.ts'
export { ClientError } from './errors.ts'
export type { Event, MethodName, MethodParams, MethodResult, Session } from './methods.ts'
