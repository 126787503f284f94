import stringWidth from 'string-width'

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
