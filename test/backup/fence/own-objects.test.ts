import { expect, test } from 'vitest'
import { OwnObjects } from '../../../src/backup/fence/fenced-object-store.ts'
import type { ObjectEntry } from '../../../src/backup/object-store/object-store.ts'

const KEYS_MAX = 512
const keyOf = (number: number) => `snapshots/cell/${String(number).padStart(4, '0')}`

async function* nothing(): AsyncGenerator<ObjectEntry> {}

test('only the newest objects are added to a listing, however many were stored; one that is stored again is the newest (invariant 13)', async () => {
  let heads = 0
  const own = new OwnObjects({
    head: async () => {
      heads++
      return { size: 1 }
    },
  })
  for (let number = 0; number < KEYS_MAX; number++) own.stored(keyOf(number))
  own.stored(keyOf(0))
  own.stored(keyOf(KEYS_MAX))
  own.stored(keyOf(KEYS_MAX + 1))
  const listed: string[] = []
  for await (const { key } of own.addTo(nothing(), 'snapshots/cell/', undefined, {})) listed.push(key)
  const kept = Array.from({ length: KEYS_MAX + 2 }, (_, number) => number).filter((n) => n !== 1 && n !== 2)
  expect(listed).toEqual(kept.map(keyOf))
  expect(heads).toBe(KEYS_MAX)
})
