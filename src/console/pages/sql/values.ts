import { bytesOf, type SqlValue } from '../../../client/index.ts'

type Blob = { type: 'blob'; base64: string }

export function isBlob(value: SqlValue): value is Blob {
  return typeof value === 'object' && value !== null
}

/** `x'0aff'`, as SQL spells it. @param bytesMax after so many comes `…` */
export function hexOf(value: Blob, bytesMax = Number.POSITIVE_INFINITY): string {
  const bytes = bytesOf(value)
  const hex = [...bytes.subarray(0, bytesMax)].map((byte) => byte.toString(16).padStart(2, '0')).join('')
  return bytes.length > bytesMax ? `x'${hex}…` : `x'${hex}'`
}

/** NULL is an empty field, and empty text is `""`; blobs are `x'…'`. */
export function toCsv(columns: readonly string[], rows: readonly SqlValue[][]): string {
  const line = (fields: string[]) => `${fields.join(',')}\r\n`
  return [columns.map(csvText), ...rows.map((row) => row.map(csvField))].map(line).join('')
}

function csvField(value: SqlValue): string {
  if (value === null) return ''
  return typeof value === 'string' ? csvText(value) : isBlob(value) ? hexOf(value) : String(value)
}

function csvText(text: string): string {
  return text === '' || /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text
}

/** Objects, one a row, as the HTTP interface has them. */
export function toJson(columns: readonly string[], rows: readonly SqlValue[][]): string {
  const objects = rows.map((row) => Object.fromEntries(columns.map((name, at) => [name, row[at] ?? null])))
  return JSON.stringify(objects, null, 2)
}
