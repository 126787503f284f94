import { expect, test } from 'vitest'
import {
  EPOCHS_AHEAD,
  EPOCHS_LOOKED_AT,
  newestUnlisted,
} from '../../../src/backup/shipping/stored/last-log.ts'
import type { LogNumber } from '../../../src/backup/versions/object-keys.ts'

/** What is stored, and which places were looked at. */
function looking(...stored: LogNumber[]) {
  const looks: string[] = []
  const name = ({ epoch, number }: LogNumber) => `${epoch}-${number}`
  const names = new Set(stored.map(name))
  const look = async (place: LogNumber) => {
    looks.push(name(place))
    return names.has(name(place)) ? name(place) : undefined
  }
  return { look, looks }
}

test('after the last listed object, the next numbers and the first of later epochs are found, however they are mixed', async () => {
  const { look } = looking({ epoch: 3, number: 8 }, { epoch: 5, number: 1 }, { epoch: 5, number: 2 })
  expect(await newestUnlisted({ epoch: 3, number: 7 }, 6, new Set(), look)).toBe('5-2')
  expect(await newestUnlisted({ epoch: 5, number: 2 }, 6, new Set(), look)).toBeUndefined()
})

test('up to the epoch of this node, in the newest sixteen; those of nodes that have ended are looked at once', async () => {
  const { look, looks } = looking({ epoch: 20, number: 1 })
  const last = { epoch: 3, number: 7 }
  const empty = new Set<number>()
  expect(await newestUnlisted(last, 19 + EPOCHS_LOOKED_AT, empty, look)).toBe('20-1')
  looks.splice(0)
  expect(await newestUnlisted(last, 19 + EPOCHS_LOOKED_AT, empty, look)).toBe('20-1')
  expect(looks).toEqual(['3-8', '20-1', '35-1', '20-2', '35-1'])
  expect(await newestUnlisted(last, 20 + EPOCHS_LOOKED_AT, new Set(), look)).toBeUndefined()
  expect(await newestUnlisted(last, 19, new Set(), look)).toBeUndefined()
})

test('without an epoch of its own, up to four epochs later', async () => {
  const at = (epoch: number) => looking({ epoch, number: 1 })
  const last = { epoch: 3, number: 7 }
  expect(await newestUnlisted(last, undefined, new Set(), at(3 + EPOCHS_AHEAD).look)).toBe('7-1')
  expect(await newestUnlisted(last, undefined, new Set(), at(4 + EPOCHS_AHEAD).look)).toBeUndefined()
  const { look, looks } = looking()
  await newestUnlisted({ epoch: 0, number: 0 }, undefined, new Set(), look)
  expect(looks).toEqual(['1-1', '2-1', '3-1', '4-1'])
})
