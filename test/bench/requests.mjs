// F8, F9: requests on an open connection, against the control-mode client of tmux.
import { setTimeout as pause } from 'node:timers/promises'
import { END, picture } from './programs.mjs'
import { alternate, now } from './stats.mjs'

const SIZE = { cols: 200, rows: 50 }

export async function requests(bench) {
  const { root } = bench.base()
  const argv = picture(root.path, 'picture-read', 200)
  root.profile('picture-read', argv)
  const product = await bench.product()
  const peer = bench.tmux()
  const control = await peer?.control()
  const timed = async (run) => {
    const began = now()
    await run()
    return now() - began
  }
  const count = bench.quick ? 200 : 1_000

  if (bench.wants('F9')) {
    const sides = {
      ours: product && (() => timed(() => product.wire.call('daemon.health'))),
      peer: control && (() => timed(() => control.command('display-message -p ok'))),
    }
    await alternate(200, sides)
    bench.report('F9', await alternate(count, sides))
  }
  if (bench.wants('F8')) {
    const session = await product?.wire.call('session.new', { agent: 'picture-read', ...SIZE })
    peer?.session('picture-read', argv, SIZE)
    await pause(800)
    const screen = async () => {
      const { visible_lines: lines } = await product.wire.call('session.screen', { session_id: session.id })
      if (lines.length !== 50 || !lines[49].includes(END)) throw new Error('the screen is not the whole picture')
    }
    const capture = async () => {
      const lines = await control.command('capture-pane -p -t picture-read')
      if (lines.length !== 50 || !lines[49].includes(END)) throw new Error('the capture is not the whole picture')
    }
    const sides = { ours: product && (() => timed(screen)), peer: control && (() => timed(capture)) }
    await alternate(30, sides)
    bench.report('F8', await alternate(count / 4, sides))
    if (session !== undefined) await product.wire.call('session.remove', session.id)
    peer?.drop('picture-read')
  }
  control?.close()
}
