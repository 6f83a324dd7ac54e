// The width table of @xterm/addon-unicode-graphemes goes into the bundle unpacked. Packed, each worker inflates it twice
// in JavaScript at its start, which costs 10 ms and leaves 2.5 MB of heap behind; unpacked it has 51 kB.
import { readFile } from 'node:fs/promises'
import { inflateRawSync } from 'node:zlib'

const INFLATE =
  /([\w$]+)=([\w$]+|\(0,[\w$]+\.default\))\(\1,new Uint8Array\(([\w$]+)\)\),\1=\2\(\1,new Uint8Array\(\3\)\)/
const TABLE = /"(AAARAAAAAAB[A-Za-z0-9+/=]+)"/

export const plainWidthTable = {
  name: 'plain-width-table',
  setup(build) {
    build.onLoad({ filter: /addon-unicode-graphemes[\\/]lib[\\/].*\.m?js$/ }, async ({ path }) => {
      const source = await readFile(path, 'utf8')
      const table = TABLE.exec(source)?.[1]
      const inflate = INFLATE.exec(source)
      if (table === undefined || inflate === null) throw new Error(`${path}: the width table is not where it was`)
      const packed = Buffer.from(table, 'base64')
      const plain = Buffer.concat([packed.subarray(0, 12), inflateRawSync(inflateRawSync(packed.subarray(12)))])
      if (plain.length !== 12 + packed.readUInt32LE(8)) throw new Error(`${path}: the width table has another form`)
      const contents = source
        .replace(table, () => plain.toString('base64'))
        .replace(inflate[0], () => `${inflate[1]}=new Uint8Array(${inflate[1]})`)
      return { contents, loader: 'js' }
    })
  },
}
