import type { Measured, Outcome, Row, Unit } from './results.ts'

/** Of these units more is better; of the others, less. */
const RATES: ReadonlySet<Unit> = new Set(['/s'])

const OURS = 'cellstore'

/** A table of one group: a row for each work, a column for each contender. */
export function table(rows: readonly Row[]): string {
  const names = [...new Set(rows.flatMap(({ contenders }) => Object.keys(contenders)))]
  const sized = rows.some(({ at }) => at !== undefined)
  const head = ['Work', ...(sized ? ['How many'] : []), ...names]
  const lines = rows.map((row) => [
    row.what,
    ...(sized ? [row.at?.toLocaleString('en') ?? ''] : []),
    ...names.map((name) => cell(row, name)),
  ])
  const text = [head, head.map(() => '---'), ...lines].map((line) => `| ${line.join(' | ')} |`).join('\n')
  const reasons = absences(rows).map((reason) => `- ${reason}`)
  return reasons.length === 0 ? text : `${text}\n\n${reasons.join('\n')}`
}

/** Each contender that rows miss, and why. */
function absences(rows: readonly Row[]): string[] {
  const reasons = rows.flatMap(({ contenders }) =>
    Object.entries(contenders).flatMap(([name, outcome]) =>
      'absent' in outcome ? [`${name}: *absent, because ${outcome.absent}*`] : [],
    ),
  )
  return [...new Set(reasons)]
}

/** The median with its spread, how many times as good cellstore is, latencies, and processor time. */
function cell({ unit, contenders }: Row, name: string): string {
  const outcome = contenders[name]
  if (outcome === undefined) return ''
  if ('absent' in outcome) return 'absent'
  const { median, min, max, p50, p99, processorUs } = outcome
  const spread = min === max ? '' : ` (${shown(min)}–${shown(max)})`
  const named = unit === '/s' ? '/s' : unit === 'open files' ? '' : ` ${unit}`
  const parts = [`${shown(median)}${named}${spread}`]
  const times = ratio(unit, contenders[OURS], outcome)
  if (name !== OURS && times !== undefined) parts.push(`**× ${times.toPrecision(2)}**`)
  if (p50 !== undefined) parts.push(`p50 ${milliseconds(p50)}`)
  if (p99 !== undefined && unit !== 'ms') parts.push(`p99 ${milliseconds(p99)}`)
  if (processorUs !== undefined) parts.push(`${shown(processorUs)} µs of processor`)
  return parts.join('<br>')
}

/** How many times as good cellstore is: above 1 it is ahead. */
export function ratio(unit: Unit, ours: Outcome | undefined, theirs: Measured): number | undefined {
  if (ours === undefined || 'absent' in ours || ours.median === 0 || theirs.median === 0) return undefined
  return RATES.has(unit) ? ours.median / theirs.median : theirs.median / ours.median
}

function milliseconds(ms: number): string {
  return ms < 0.1 ? `${shown(ms * 1_000)} µs` : `${shown(ms)} ms`
}

/** Three digits, or all of a whole number. */
function shown(value: number): string {
  const digits = Math.abs(value) >= 100 ? 0 : Math.abs(value) >= 10 ? 1 : 2
  return value.toLocaleString('en', { maximumFractionDigits: digits })
}
