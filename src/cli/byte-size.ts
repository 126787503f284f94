const UNITS = ['B', 'KiB', 'MiB', 'GiB', 'TiB'] as const

/** A number of bytes for people: `812 B`, `3.4 MiB`. */
export function formatBytes(bytes: number): string {
  let value = bytes
  let unit = 0
  while (value >= 1_024 && unit < UNITS.length - 1) {
    value /= 1_024
    unit++
  }
  return `${unit === 0 ? value : value.toFixed(value < 10 ? 1 : 0)} ${UNITS[unit]}`
}
