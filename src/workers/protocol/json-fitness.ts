/**
 * JSON is the faster one for small values alone: it looks at every character several times, and writes up to six bytes for
 * one. From about this many characters in one text, and this many in all, a structured clone takes less time and memory.
 */
const TEXT_MAX = 512
const SIZE_MAX = 262_144
/** What a value that is no text counts for, in characters. */
const VALUE_SIZE = 8

/**
 * Whether a value is small, and comes out of its JSON as it went in. Of objects, a property that is `undefined` counts as
 * one that is not there; in an array it has a place, and so does not.
 */
export function fitsJson(value: unknown): boolean {
  return new JsonFitness().holds(value)
}

class JsonFitness {
  #left = SIZE_MAX

  holds(value: unknown): boolean {
    switch (typeof value) {
      case 'string':
        return this.#isSmall(value)
      case 'boolean':
        return this.#take(VALUE_SIZE)
      case 'number':
        // No NaN, no infinity, and not the other zero.
        return Number.isFinite(value) && (value !== 0 || 1 / value > 0) && this.#take(VALUE_SIZE)
      case 'object':
        return this.#take(VALUE_SIZE) && (value === null || this.#holdsAll(value))
      default:
        return false
    }
  }

  #holdsAll(value: object): boolean {
    if (Array.isArray(value)) {
      // Not `every`, which passes over places that are empty.
      for (const each of value) if (!this.holds(each)) return false
      return true
    }
    const prototype = Object.getPrototypeOf(value)
    if (prototype !== Object.prototype && prototype !== null) return false
    for (const name in value) {
      const property = (value as Record<string, unknown>)[name]
      if (property !== undefined && !(this.#isSmall(name) && this.holds(property))) return false
    }
    return true
  }

  #isSmall(text: string): boolean {
    return text.length <= TEXT_MAX && this.#take(text.length)
  }

  #take(size: number): boolean {
    this.#left -= size
    return this.#left >= 0
  }
}
