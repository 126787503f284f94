import { expect, test } from 'vitest'
import { mapLimit } from '../../src/base/async/map-limit.ts'

/** Calls that are answered one by one, by hand. */
function calls() {
  const open = new Map<number, PromiseWithResolvers<number>>()
  const map = (item: number) => {
    open.set(item, Promise.withResolvers())
    return (open.get(item) as PromiseWithResolvers<number>).promise
  }
  const turns = () => new Promise((resolve) => setImmediate(resolve))
  return { open, map, turns }
}

test('as many calls as allowed are under way, and the results are in the order of the items', async () => {
  const { open, map, turns } = calls()
  const mapped = mapLimit([1, 2, 3], 2, map)
  expect([...open.keys()]).toEqual([1, 2])
  open.get(2)?.resolve(20)
  await turns()
  expect([...open.keys()]).toEqual([1, 2, 3])
  open.get(3)?.resolve(30)
  open.get(1)?.resolve(10)
  expect(await mapped).toEqual([10, 20, 30])
})

test('after a failure no call begins', async () => {
  const { open, map, turns } = calls()
  const mapped = mapLimit([1, 2, 3], 2, map)
  open.get(1)?.reject(new Error('it broke'))
  await expect(mapped).rejects.toThrow('it broke')
  open.get(2)?.resolve(20)
  await turns()
  expect([...open.keys()]).toEqual([1, 2])
})

test('once the signal aborts no call begins, and its reason is thrown', async () => {
  const { open, map } = calls()
  const abort = new AbortController()
  const mapped = mapLimit([1, 2, 3], 2, map, abort.signal)
  abort.abort(new Error('over'))
  open.get(1)?.resolve(10)
  await expect(mapped).rejects.toThrow('over')
  expect([...open.keys()]).toEqual([1, 2])
})
