import type { components } from './schema.generated.ts'

/** What JSON has no form for, in the form that the server takes and gives. */

/** An integer of 64 bits, as a parameter of a statement or the `delta` of `kvIncr`. */
export function integer(value: bigint): components['schemas']['TypedInteger'] {
  return { type: 'integer', value: value.toString() }
}

/** A number that is bound as REAL, whole, large or infinite too, as a parameter of a statement. */
export function real(value: number): { type: 'real'; value: number } {
  return { type: 'real', value }
}

/** Bytes, as a parameter of a statement. */
export function blob(bytes: Uint8Array): { type: 'blob'; base64: string } {
  // In pieces: a call takes only so many arguments.
  let binary = ''
  for (let at = 0; at < bytes.length; at += 8_192) {
    binary += String.fromCharCode(...bytes.subarray(at, at + 8_192))
  }
  return { type: 'blob', base64: btoa(binary) }
}

/** The bytes of a blob in a row. */
export function bytesOf({ base64 }: { type: 'blob'; base64: string }): Uint8Array {
  return Uint8Array.from(atob(base64), (char) => char.charCodeAt(0))
}
