/** Longer texts are cut: they are the caller's, and messages go to logs. */
const SHOWN_MAX = 64

/** What a caller has given, for a message about it: `"7days"`, `undefined`, `a Date`. Never what is inside an object. */
export function shownValue(value: unknown): string {
  switch (typeof value) {
    case 'string':
      return JSON.stringify(value.slice(0, SHOWN_MAX).toWellFormed())
    case 'object':
      return value === null ? 'null' : Array.isArray(value) ? 'a list' : `a ${className(value)}`
    case 'function':
    case 'symbol':
      return `a ${typeof value}`
    default:
      return String(value)
  }
}

function className(value: object): string {
  const name: unknown = Object.getPrototypeOf(value)?.constructor?.name
  return typeof name === 'string' && name !== '' && name !== 'Object'
    ? name.slice(0, SHOWN_MAX)
    : 'plain object'
}
