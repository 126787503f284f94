import stringWidth from 'string-width'

/** What a terminal would obey instead of showing it: names and rows are tenants' text, and must not move a cursor. */
// biome-ignore lint/suspicious/noControlCharactersInRegex: they are what this is about
const CONTROL = /[\u0000-\u001f\u007f-\u009f\u2028\u2029]/g
const GAP = '  '
const UNITS = ['B', 'KiB', 'MiB', 'GiB', 'TiB'] as const

/** Prints a command's one result: the document for scripts, or text for people. */
export function printResult<T>(document: T, json: boolean | undefined, show: (document: T) => string): void {
  process.stdout.write(`${json === true ? JSON.stringify(document) : show(document)}\n`)
}

/** Says what a person wants to know, and what must not be on a script's standard output. */
export function printNote(json: boolean | undefined, note: string): void {
  if (json !== true) process.stderr.write(`${note}\n`)
}

/** Columns for people, each as wide on a terminal as its widest text. */
export function formatTable(headings: readonly string[], rows: readonly (readonly string[])[]): string {
  const lines = [headings, ...rows].map((line) => line.map(visible))
  const widths = headings.map((_, column) => {
    let widest = 0
    for (const line of lines) widest = Math.max(widest, displayWidth(line[column] ?? ''))
    return widest
  })
  return lines
    .map((line) =>
      line
        .map((text, column) => padToWidth(text, widths[column] ?? 0))
        .join(GAP)
        .trimEnd(),
    )
    .join('\n')
}

/** A cell in a line for people. */
export function cellLabel({ id, name }: { id: string; name: string | null }): string {
  return name === null ? id : `${id} (${visible(name)})`
}

/** Text with its control characters written out. */
export function visible(text: string): string {
  return text.replace(CONTROL, (character) => {
    const code = character.charCodeAt(0)
    return code < 0x100 ? `\\x${code.toString(16).padStart(2, '0')}` : `\\u${code.toString(16)}`
  })
}

/** As {@link visible}, of a text with lines: a message can quote tenants, such as a trigger's RAISE. */
export function visibleLines(text: string): string {
  return text.split('\n').map(visible).join('\n')
}

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

/** A duration for people, in the largest unit that it is a whole number of: `15m`, `1d`. */
export function formatDuration(ms: number): string {
  const units = [
    ['d', 86_400_000],
    ['h', 3_600_000],
    ['m', 60_000],
    ['s', 1_000],
  ] as const
  const [unit, unitMs] = units.find(([, each]) => ms % each === 0) ?? ['ms', 1]
  return `${ms / unitMs}${unit}`
}

/** Lines to type, for the end of a command's help. */
export function examples(...lines: string[]): string {
  return `\nExamples:\n${lines.map((line) => `  $ ${line}`).join('\n')}`
}

const ASCII = /^[\u0020-\u007e]*$/
const CUT = '…'
/** As people see them: an accent or a joined emoji belongs to the character before it. */
const CHARACTERS = new Intl.Segmenter()
/** No character that people see has more code units for each column. */
const UNITS_PER_COLUMN_MAX = 16

/** How many columns of a terminal a text takes: a Chinese character takes two, an accent that combines takes none. */
export function displayWidth(text: string): number {
  return ASCII.test(text) ? text.length : stringWidth(text)
}

/** Text filled up with spaces to a width. */
export function padToWidth(text: string, width: number): string {
  return text + ' '.repeat(Math.max(0, width - displayWidth(text)))
}

/** Text that takes at most so many columns: of a longer one its beginning and `…`, never half of a character. */
export function cutToWidth(text: string, widthMax: number): string {
  // A longer text is cut first, so that a megabyte is not measured. One character may be several code units.
  const start = text.slice(0, widthMax * UNITS_PER_COLUMN_MAX)
  if (start.length === text.length && displayWidth(text) <= widthMax) return text
  let kept = ''
  let width = 0
  for (const { segment } of CHARACTERS.segment(start)) {
    width += displayWidth(segment)
    if (width > widthMax - 1) break
    kept += segment
  }
  return kept + CUT
}
