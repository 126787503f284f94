const [QUOTE, BACKSLASH, COMMA, COLON, LIST, OBJECT] = [0x22, 0x5c, 0x2c, 0x3a, 0x5b, 0x7b]

/**
 * Whether JSON holds more values and names than so many. What a body costs to parse and to check depends on their number
 * more than on its bytes, so they are counted before, in one pass that makes nothing and ends at the bound.
 */
export function hasMoreValues(json: Uint8Array, max: number): boolean {
  // Each takes two bytes, but the last.
  if (json.length <= 2 * max) return false
  let values = 1
  for (let at = 0; at < json.length; at++) {
    switch (json[at]) {
      case QUOTE:
        at = endOfString(json, at)
        break
      case COMMA:
      case COLON:
      case LIST:
      case OBJECT:
        if (++values > max) return true
    }
  }
  return false
}

/** Where a string's closing quote is; the end if there is none. A text is mostly long and without escapes, or short. */
function endOfString(json: Uint8Array, start: number): number {
  const end = json.indexOf(QUOTE, start + 1)
  if (end === -1) return json.length
  if (json[end - 1] !== BACKSLASH) return end
  for (let at = start + 1; at < json.length; at++) {
    if (json[at] === BACKSLASH) at++
    else if (json[at] === QUOTE) return at
  }
  return json.length
}
