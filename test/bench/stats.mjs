// Pure figures: medians, percentiles, rounding for the table.

/** Milliseconds with sub-microsecond resolution. */
export const now = () => performance.now()

export const sorted = (values) => [...values].sort((a, b) => a - b)
export const median = (values) => percentile(values, 0.5)

/** Nearest-rank percentile; undefined for no values. */
export function percentile(values, fraction) {
  if (values.length === 0) return undefined
  const order = sorted(values)
  return order[Math.min(order.length - 1, Math.max(0, Math.ceil(fraction * order.length) - 1))]
}

/**
 * Runs both sides alternately, so that drift of the machine meets both alike. A side that fails is dropped with its
 * message and the other one goes on.
 * Shape: { ours: number[], peer: number[], errors: string[] }
 */
export async function alternate(rounds, sides) {
  const figures = { ours: [], peer: [], errors: [] }
  const names = Object.keys(sides).filter((name) => sides[name] !== undefined)
  for (let round = 0; round < rounds; round++) {
    for (const name of round % 2 === 0 ? names : [...names].reverse()) {
      if (figures.errors.some((it) => it.startsWith(`${name}:`))) continue
      try {
        figures[name].push(await sides[name](round))
      } catch (problem) {
        figures.errors.push(`${name}: ${problem.message}`)
      }
    }
  }
  return figures
}

export function show(value, unit) {
  if (value === undefined) return '-'
  if (unit === 'ms' && value < 1) return `${Math.round(value * 1000)} us`
  const digits = value >= 100 ? 0 : value >= 10 ? 1 : 2
  return `${value.toFixed(digits)} ${unit}`
}
