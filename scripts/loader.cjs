// Runs the bundle beside this file through its V8 code cache, when the cache fits this node. A missing, stale or
// rejected cache only costs the time it would have saved.
'use strict'
const fs = require('node:fs')
const vm = require('node:vm')
const [major, minor] = process.versions.node.split('.').map(Number)
if (major < 20 || (major === 20 && minor < 19)) {
  process.stderr.write(`pohunek: Node.js ${process.versions.node} is too old; install 20.19 or newer\n`)
  process.exit(1)
}
const base = __filename.slice(0, -'.cjs'.length)
const file = `${base}.bundle.cjs`
const source = fs.readFileSync(file, 'utf8')
let cachedData
try {
  cachedData = fs.readFileSync(`${base}.cache`)
} catch {
  cachedData = undefined
}
const script = new vm.Script(`(function (exports, require, module, __filename, __dirname) {${source}\n})`, {
  filename: file,
  cachedData,
  importModuleDynamically: vm.constants?.USE_MAIN_CONTEXT_DEFAULT_LOADER,
})
// The compiled code holds what it needs; the buffer would stay for the life of the process.
cachedData = undefined
const run = script.runInThisContext()
const keepCache = () => fs.writeFileSync(`${base}.cache`, script.createCachedData())
if (process.env.POHUNEK_MAKE_CACHE === 'run') {
  // The program leaves this way; what it ran until then is in the cache. V8 takes no cache made under other flags.
  require('node:v8').setFlagsFromString = () => {}
  const { reallyExit } = process
  process.reallyExit = (code) => {
    keepCache()
    reallyExit(code)
  }
}
if (process.env.POHUNEK_MAKE_CACHE === '1') {
  // Programs look at this and return after their modules are loaded, so that the functions used at start are in it.
  globalThis.POHUNEK_LOAD_ONLY = true
  run.call(module.exports, module.exports, require, module, file, __dirname)
  keepCache()
  process.reallyExit(0)
} else {
  run.call(module.exports, module.exports, require, module, file, __dirname)
}
