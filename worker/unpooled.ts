/**
 * Imported before @xterm/addon-unicode-graphemes 0.4: it decodes its table with `Buffer.from(text, 'base64')` and then
 * reads `.buffer` from offset 0, which is somebody else's bytes ("Data error", or wrong widths) when node takes
 * the buffer from its shared pool. No pool while it loads; xterm.ts gives it back. Goes when the addon reads its offset.
 */
export const poolSize = Buffer.poolSize
Buffer.poolSize = 0
