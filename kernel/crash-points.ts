/** Crash points of test builds; the work is platform/crash-points.ts, which workers use too. */
export { crashPoint } from '../platform/crash-points.ts'
