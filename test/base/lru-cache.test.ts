import { expect, test } from 'vitest'
import { LruCache } from '../../src/base/lru-cache.ts'
import { seededRandom } from '../support/seed.ts'

test('never holds more than its bound', () => {
  const cache = new LruCache<number>(10)
  for (let i = 0; i < 1_000; i++) {
    cache.set(`s${i}`, i)
    expect(cache.size).toBeLessThanOrEqual(10)
  }
})

test('keeps an entry that is used, while others come and go', () => {
  const cache = new LruCache<string>(10)
  cache.set('hot', 'hot')
  for (let i = 0; i < 1_000; i++) {
    cache.set(`s${i}`, 'cold')
    expect(cache.get('hot')).toBe('hot')
  }
})

test('gives out what was put in last, or nothing', () => {
  const random = seededRandom()
  const cache = new LruCache<number>(8)
  const last = new Map<string, number>()
  for (let i = 0; i < 20_000; i++) {
    const key = `s${random.below(20)}`
    if (random.chance(0.3)) {
      cache.set(key, i)
      last.set(key, i)
    } else if (random.chance(0.01)) {
      cache.clear()
      last.clear()
    } else if (random.chance(0.1)) {
      cache.delete(key)
      last.delete(key)
    } else expect([undefined, last.get(key)]).toContain(cache.get(key))
  }
})

test('entries that weigh more push out more, and one heavier than half of the bound is not kept', () => {
  const cache = new LruCache<number>(8, (key) => key.length)
  cache.set('aaaa', 1)
  cache.set('bb', 2)
  cache.set('cc', 3)
  expect(cache.get('aaaa')).toBe(1)
  cache.set('ddddd', 4)
  expect(cache.get('ddddd')).toBeUndefined()
  cache.delete('aaaa')
  cache.set('eeee', 5)
  cache.set('ffff', 6)
  expect(['aaaa', 'bb', 'cc', 'eeee', 'ffff'].map((key) => cache.get(key))).toEqual([
    undefined,
    undefined,
    undefined,
    5,
    6,
  ])
})
