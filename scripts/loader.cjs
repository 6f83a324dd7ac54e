// Runs the bundle beside this file through its V8 code cache, when the cache fits this node. A missing, stale or
// rejected cache only costs the time it would have saved.
'use strict'
const fs = require('node:fs')
const vm = require('node:vm')
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
const run = script.runInThisContext()
if (process.env.POHUNEK_MAKE_CACHE === '1') {
  // Programs look at this and return after their modules are loaded, so that the functions used at start are in it.
  globalThis.POHUNEK_LOAD_ONLY = true
  run.call(module.exports, module.exports, require, module, file, __dirname)
  fs.writeFileSync(`${base}.cache`, script.createCachedData())
  process.reallyExit(0)
} else {
  run.call(module.exports, module.exports, require, module, file, __dirname)
}
