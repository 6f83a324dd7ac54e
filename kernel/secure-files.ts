/** Private directories and files; the work is platform/private-files.ts, which workers use too. */
export {
  checkOwnFile,
  openPrivate,
  privateDir,
  readPrivate,
  removeFile,
  syncDirectory,
  writeAtomic,
  writeAtomicSync,
} from '../platform/private-files.ts'
