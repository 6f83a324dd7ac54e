/** Drives pohunek sessions from a program: `const client = await connect(); await client.call('session.list', null)`. */
export { connect, localSocket, AttachStream, Client } from './client.ts'
export type { AttachOptions, ConnectOptions, RequestOptions } from './client.ts'
export { ClientError } from './errors.ts'
export type { Event, MethodName, MethodParams, MethodResult, Session } from './methods.ts'
