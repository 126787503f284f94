import { now } from '../session/browser-clock.ts'

const UNITS = ['B', 'kB', 'MB', 'GB', 'TB']
const SPANS: readonly (readonly [ms: number, name: string])[] = [
  [86_400_000, 'd'],
  [3_600_000, 'h'],
  [60_000, 'min'],
  [1_000, 's'],
]

/** `1.4 MB`: with powers of 1,000, as disks and buckets count. */
export function bytes(count: number): string {
  let unit = 0
  let left = count
  while (left >= 1_000 && unit < UNITS.length - 1) {
    left /= 1_000
    unit++
  }
  return `${unit === 0 || left >= 100 ? Math.round(left) : left.toFixed(1)} ${UNITS[unit]}`
}

/** `12,345`. */
export function count(number: number): string {
  return number.toLocaleString('en-US')
}

/** `1 row`, `2 rows`. */
export function counted(number: number, one: string, many = `${one}s`): string {
  return `${count(number)} ${number === 1 ? one : many}`
}

/** `3 min ago`. */
export function age(time: string | null | undefined): string {
  if (time == null) return 'never'
  const ms = now() - Date.parse(time)
  return ms < 1_000 ? 'just now' : `${span(ms)} ago`
}

/** `3 min`, `1 d 4 h`: two units at most. */
export function span(ms: number): string {
  const at = SPANS.findIndex(([unit]) => ms >= unit)
  if (at === -1) return ms < 10 ? `${ms.toFixed(1)} ms` : `${Math.round(ms)} ms`
  const [unit, name] = SPANS[at] as (typeof SPANS)[number]
  const [next, nextName] = SPANS[at + 1] ?? [unit, '']
  const rest = Math.floor((ms % unit) / next)
  return `${Math.floor(ms / unit)} ${name}${rest > 0 && nextName !== '' ? ` ${rest} ${nextName}` : ''}`
}

/** `2026-01-31 12:00:05` in the time zone of whoever looks. */
export function moment(time: string | number): string {
  const at = new Date(time)
  const two = (part: number) => String(part).padStart(2, '0')
  const day = `${at.getFullYear()}-${two(at.getMonth() + 1)}-${two(at.getDate())}`
  return `${day} ${two(at.getHours())}:${two(at.getMinutes())}:${two(at.getSeconds())}`
}
