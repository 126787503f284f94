const SIZES: Readonly<Record<string, number>> = { KiB: 2 ** 10, MiB: 2 ** 20, GiB: 2 ** 30 }

/** What {@link parseBytes} takes, for messages. */
export const BYTES_FORM = 'a number of bytes such as 65536, 64KiB or 2MiB'

/** Reads a number of bytes, with or without a unit. @returns NaN for a text that is none */
export function parseBytes(text: string): number {
  const [, digits, unit] = /^(\d{1,15})(KiB|MiB|GiB)?$/.exec(text) ?? []
  if (digits === undefined) return Number.NaN
  return Number(digits) * (unit === undefined ? 1 : (SIZES[unit] as number))
}

/** As {@link parseBytes} reads it, with the largest unit that keeps it whole. */
export function spellBytes(bytes: number): string {
  for (const unit of ['GiB', 'MiB', 'KiB']) {
    const each = SIZES[unit] as number
    if (bytes >= each && bytes % each === 0) return `${bytes / each}${unit}`
  }
  return String(bytes)
}
