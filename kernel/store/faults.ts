import { catalogue } from '../../protocol/fault.ts'

export const storeFaults = catalogue({
  store_schema_newer: {
    class: 'configuration',
    say: (d: { file: string; line: number; found: number; known: number; kind: string }) =>
      `${d.file} line ${d.line} (${d.kind}) has schema ${d.found}, this daemon knows ${d.known}`,
    recover: (d: { file: string; known: number }) =>
      `start the release that wrote it, or restore the backup ${d.file}.pre-schema-${d.known}; the file was not touched`,
  },
  store_schema_too_old: {
    class: 'configuration',
    say: (d: { file: string; line: number; found: number; kind: string }) =>
      `${d.file} line ${d.line} (${d.kind}) has schema ${d.found}, which this daemon can no longer migrate`,
    recover: 'start an older release once, which migrates it; the file was not touched',
  },
})
