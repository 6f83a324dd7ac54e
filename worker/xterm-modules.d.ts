// The packages' module builds, without types of their own. A fifth smaller than what their `main` names, and without a
// wrapper that node and a bundler unwrap differently (500 kB of memory a worker).
declare module '@xterm/headless/lib-headless/xterm-headless.mjs' {
  export { Terminal } from '@xterm/headless'
}
declare module '@xterm/addon-unicode-graphemes/lib/addon-unicode-graphemes.mjs' {
  export { UnicodeGraphemesAddon } from '@xterm/addon-unicode-graphemes'
}
