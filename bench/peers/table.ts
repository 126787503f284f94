import type { Measured, Outcome, Row, Unit } from './results.ts'

/** Of these units more is better; of the others, less. */
const RATES: ReadonlySet<Unit> = new Set(['/s'])

const OURS = 'cellstore'

/** Tables of one group: a row for each work, a column for each contender. Works that others take part in have a table of their own. */
export function table(rows: readonly Row[]): string {
  const namesOf = ({ contenders }: Row) => Object.keys(contenders).sort().join()
  const kinds = Map.groupBy(rows, namesOf)
  const reasons = absences(rows)
  return [...[...kinds.values()].map(oneTable), ...(reasons.length === 0 ? [] : [reasons.join('\n')])].join(
    '\n\n',
  )
}

function oneTable(rows: readonly Row[]): string {
  const names = [...new Set(rows.flatMap(({ contenders }) => Object.keys(contenders)))]
  const sized = rows.some(({ at }) => at !== undefined)
  const head = ['Work', ...(sized ? ['How many'] : []), ...names]
  const lines = rows.map((row) => [
    row.what,
    ...(sized ? [size(row)] : []),
    ...names.map((name) => figures(row, name).join('<br>')),
  ])
  return [head, head.map(() => '---'), ...lines].map((line) => `| ${line.join(' | ')} |`).join('\n')
}

/** The same for a terminal: a line for each contender of a work. */
export function listing(rows: readonly Row[]): string {
  const lines = rows.flatMap((row) => [
    `${row.what}${row.at === undefined ? '' : `, ${size(row)}`}`,
    ...Object.keys(row.contenders).map(
      (name) => `  ${name.padEnd(NAME_WIDTH)}${figures(row, name).join('  ').replaceAll('*', '')}`,
    ),
  ])
  return [...lines, '', ...absences(rows)].join('\n')
}

const NAME_WIDTH = 24

function size({ at, of }: Row): string {
  return at === undefined ? '' : `${at.toLocaleString('en')} ${of ?? ''}`.trim()
}

/** Each contender that rows miss, why, and which rows, if others have it. */
function absences(rows: readonly Row[]): string[] {
  const missing = new Map<string, string[]>()
  const has = new Set<string>()
  for (const row of rows)
    for (const [name, outcome] of Object.entries(row.contenders)) {
      if (!('absent' in outcome)) {
        has.add(name)
        continue
      }
      const reason = `${name}: *absent, because ${outcome.absent.replace(/\s+/g, ' ')}*`
      missing.set(reason, [...(missing.get(reason) ?? []), [row.what, size(row)].filter(Boolean).join(', ')])
    }
  return [...missing].map(([reason, works]) =>
    has.has(reason.slice(0, reason.indexOf(': *'))) ? `- ${reason} (${works.join('; ')})` : `- ${reason}`,
  )
}

/** The median with its spread, how many times as good cellstore is, latencies, and processor time. */
function figures({ unit, contenders }: Row, name: string): string[] {
  const outcome = contenders[name]
  if (outcome === undefined) return []
  if ('absent' in outcome) return ['absent']
  const { median, min, max, p50, p99, processorUs } = outcome
  const spread = min === max ? '' : ` (${shown(min)}–${shown(max)})`
  const named = unit === '/s' ? '/s' : unit === 'open files' ? '' : ` ${unit}`
  const parts = [`${shown(median)}${named}${spread}`]
  const times = ratio(unit, contenders[OURS], outcome)
  if (name !== OURS && times !== undefined)
    parts.push(`**× ${times >= 100 ? shown(times) : times.toPrecision(2)}**`)
  if (p50 !== undefined) parts.push(`p50 ${milliseconds(p50)}`)
  if (p99 !== undefined && unit !== 'ms') parts.push(`p99 ${milliseconds(p99)}`)
  if (processorUs !== undefined) parts.push(`${shown(processorUs)} µs of processor`)
  return parts
}

/** How many times as good cellstore is: above 1 it is ahead. */
export function ratio(unit: Unit, ours: Outcome | undefined, theirs: Measured): number | undefined {
  if (ours === undefined || 'absent' in ours || ours.median === 0 || theirs.median === 0) return undefined
  return RATES.has(unit) ? ours.median / theirs.median : theirs.median / ours.median
}

function milliseconds(ms: number): string {
  return ms < 0.1 ? `${shown(ms * 1_000)} µs` : `${shown(ms)} ms`
}

/** Three digits, or all of a larger whole number. */
function shown(value: number): string {
  const digits = Math.abs(value) >= 100 ? { maximumFractionDigits: 0 } : { maximumSignificantDigits: 3 }
  return value.toLocaleString('en', digits)
}
