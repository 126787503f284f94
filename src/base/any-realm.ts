import { types } from 'node:util'

/**
 * Test runners run code in a realm of its own (Jest, and vitest with `vmThreads`), where the errors and the bytes that Node.js makes
 * are no instances of what the code knows as `Error` and `Uint8Array`.
 */

export function isError(value: unknown): value is Error {
  return types.isNativeError(value) || value instanceof Error
}

export function isBytes(value: unknown): value is Uint8Array {
  return types.isUint8Array(value)
}
