import { catalogue } from '../../protocol/fault.ts'

/** What refuses a connection. */
export const connectionFaults = catalogue({
  connection_limit_reached: {
    class: 'transport',
    say: (d: { max: number }) => `${d.max} connections are open already`,
    recover: 'close some and connect again',
  },
})

export const listenFaults = catalogue({
  daemon_already_running: {
    class: 'daemon',
    say: (d: { path: string }) => `another pohunekd listens on ${d.path}`,
    recover: 'use it, or stop it first: pohunek daemon stop',
  },
  socket_path_taken: {
    class: 'configuration',
    say: (d: { path: string }) => `${d.path} exists and is not a socket`,
    recover: (d: { path: string }) => `move ${d.path} away`,
  },
  socket_path_invalid: {
    class: 'configuration',
    say: (d: { path: string; bytes: number; maxBytes: number }) =>
      `the socket path ${d.path} has ${d.bytes} bytes, the limit is ${d.maxBytes}`,
    recover: 'use a shorter XDG_RUNTIME_DIR',
  },
})
