/**
 * JSON is faster than a structured clone only for small values: it reads each character several times, and can write six
 * bytes for one. Above these numbers of characters, in one text and in all, a structured clone takes less time and memory.
 */
const TEXT_MAX = 512
const SIZE_MAX = 262_144
/** Characters that a value other than a text counts for. */
const VALUE_SIZE = 8

/**
 * Whether a value is small, and JSON keeps it unchanged. An object's property that is `undefined` counts as absent; an
 * array's element that is `undefined` does not, so JSON would change it.
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
        // JSON has no NaN, no infinity and no negative zero.
        return Number.isFinite(value) && (value !== 0 || 1 / value > 0) && this.#take(VALUE_SIZE)
      case 'object':
        return this.#take(VALUE_SIZE) && (value === null || this.#holdsAll(value))
      default:
        return false
    }
  }

  #holdsAll(value: object): boolean {
    if (Array.isArray(value)) {
      // Not `every`: it skips holes.
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
