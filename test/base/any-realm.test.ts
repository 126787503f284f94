import vm from 'node:vm'
import { expect, test } from 'vitest'
import { isBytes, isError } from '../../src/base/any-realm.ts'
import { isUnreadable } from '../../src/base/files/unreadable.ts'

/** As a test runner has it that runs its tests in a realm of their own: Node.js makes its errors in another one. */
function elsewhere<T>(code: string): T {
  return vm.runInNewContext(code) as T
}

test('errors and bytes of another realm are what they are', () => {
  const error = elsewhere("Object.assign(new Error('no'), { code: 'EIO', syscall: 'read' })")
  expect(error).not.toBeInstanceOf(Error)
  expect(isError(error)).toBe(true)
  expect(isUnreadable(error)).toBe(true)
  expect(isBytes(elsewhere('new Uint8Array(2)'))).toBe(true)
})

test('what is neither is neither; an abort is an error', () => {
  expect(isError(AbortSignal.abort().reason)).toBe(true)
  expect([{}, 'no', undefined, { message: 'no' }].some(isError)).toBe(false)
  expect([[1], 'no', new Uint16Array(1), new DataView(new ArrayBuffer(1))].some(isBytes)).toBe(false)
})
