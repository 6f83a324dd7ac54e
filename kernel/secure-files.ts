/** Private directories and files; the work is platform/private-files.ts, which workers use too. */
export {
  checkOwnFile,
  openPrivate,
  privateDir,
  readPrivate,
  removeFile,
  syncDirectory,
  writeAll,
  writeAtomic,
  writeAtomicSync,
} from '../platform/private-files.ts'
