/**
 * Whether a value comes out of its JSON as it went in. Of objects, a property that is `undefined` counts as one that is
 * not there; in an array it has a place, and so does not.
 */
export function isExactInJson(value: unknown): boolean {
  switch (typeof value) {
    case 'string':
    case 'boolean':
      return true
    case 'number':
      // No NaN, no infinity, and not the other zero.
      return Number.isFinite(value) && (value !== 0 || 1 / value > 0)
    case 'object':
      return value === null || isExactObject(value)
    default:
      return false
  }
}

function isExactObject(value: object): boolean {
  if (Array.isArray(value)) return value.every(isExactInJson)
  const prototype = Object.getPrototypeOf(value)
  if (prototype !== Object.prototype && prototype !== null) return false
  for (const name in value) {
    const property = (value as Record<string, unknown>)[name]
    if (property !== undefined && !isExactInJson(property)) return false
  }
  return true
}
