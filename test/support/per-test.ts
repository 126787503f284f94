import { afterEach, beforeEach } from 'vitest'

/**
 * Something that each test of a file, or of a group, has anew. It stands for the present test's: use it in tests, and in
 * hooks after this call.
 *
 * @param dispose called after each test, and after the hooks of the file
 */
export function perTest<T extends object>(make: () => T | Promise<T>, dispose?: (thing: T) => unknown): T {
  let present: T
  beforeEach(async () => {
    present = await make()
  })
  if (dispose !== undefined) afterEach(async () => void (await dispose(present)))
  return new Proxy({} as T, {
    get(_, name) {
      const member: unknown = Reflect.get(present, name)
      return typeof member === 'function' ? member.bind(present) : member
    },
    set: (_, name, value) => Reflect.set(present, name, value),
  })
}
