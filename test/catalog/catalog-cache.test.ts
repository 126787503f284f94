import path from 'node:path'
import { expect, onTestFinished, test } from 'vitest'
import { DEFAULT_LIMITS } from '../../src/base/options/limits.ts'
import { Catalog, CatalogCache } from '../../src/catalog/catalog.ts'
import { countOf } from '../support/counts.ts'
import { seededRandom } from '../support/seed.ts'
import { tempDirectory } from '../support/temp-directory.ts'
import { codeOf } from '../support/thrown.ts'

const ROUNDS = countOf('CELLSTORE_TEST_CACHE_ROUNDS')

/** A catalog with a table of names and numbers, what reads it directly, and what reads it through a cache. */
function openNumbers(max = 100) {
  const file = path.join(tempDirectory(), 'catalog.db')
  const schema = {
    upgrades: [],
    tables: ['CREATE TABLE numbers (name TEXT PRIMARY KEY, number INTEGER) STRICT;'],
  }
  Catalog.write(file, { storeId: 'test', createdAt: 0, schema })
  const settings = { pageCacheBytes: 1_048_576, checkpointBytes: 4_194_304, limits: DEFAULT_LIMITS }
  const catalog = new Catalog(
    file,
    { ...settings, durability: 'relaxed', sqlPolicy: 'trusted' },
    [],
    () => {},
  )
  onTestFinished(() => catalog.close())
  const select = catalog.prepare('SELECT number FROM numbers WHERE name = ?').pluck()
  const upsert = catalog.prepare('INSERT OR REPLACE INTO numbers VALUES (?, ?)')
  const remove = catalog.prepare('DELETE FROM numbers WHERE name = ?')
  let reads = 0
  const look = (name: string) => {
    reads++
    const number = select.get(name) as number | undefined
    return number === undefined ? undefined : { number }
  }
  const cache = new CatalogCache<{ number: number }>(catalog, max)
  return {
    catalog,
    look,
    get: (name: string) => cache.get(name, look),
    set: (name: string, number: number) => upsert.run(name, number),
    remove: (name: string) => remove.run(name),
    reads: () => reads,
  }
}

test('what was found is read once, and again after any change of the catalog', () => {
  const { catalog, get, set, reads } = openNumbers()
  catalog.change(() => set('a', 1))
  expect([get('a'), get('a'), get('a')]).toEqual([{ number: 1 }, { number: 1 }, { number: 1 }])
  expect(reads()).toBe(1)
  catalog.change(() => set('a', 2))
  expect(get('a')).toEqual({ number: 2 })
  catalog.setMeta('x', 'y')
  expect(get('a')).toEqual({ number: 2 })
  expect(reads()).toBe(3)
})

test('what is not there is not kept', () => {
  const { get, reads } = openNumbers()
  expect([get('a'), get('a')]).toEqual([undefined, undefined])
  expect(reads()).toBe(2)
})

test('what a change has read of itself is not kept when the change comes to nothing', () => {
  const { catalog, get, set } = openNumbers()
  catalog.change(() => set('a', 1))
  get('a')
  const failing = () =>
    catalog.change(() => {
      set('a', 2)
      expect(get('a')).toEqual({ number: 2 })
      throw new Error('no')
    })
  expect(failing).toThrow('no')
  expect(get('a')).toEqual({ number: 1 })
})

test('a closed catalog answers nothing from what is kept', () => {
  const { catalog, get, set } = openNumbers()
  catalog.change(() => set('a', 1))
  get('a')
  catalog.close()
  expect(codeOf(() => get('a'))).toBe('store_closed')
})

test('after any sequence of changes, the cache says what the catalog says', () => {
  const random = seededRandom()
  const { catalog, look, get, set, remove } = openNumbers(4)
  const names = ['a', 'b', 'c', 'd', 'e', 'f', 'g']
  const step = () => {
    const name = random.pick(names)
    if (random.below(3) > 0) return
    if (random.below(3) === 0) remove(name)
    else set(name, random.below(5))
  }
  for (let round = 0; round < ROUNDS; round++) {
    try {
      if (random.below(4) === 0) {
        catalog.change(() => {
          step()
          for (const name of names) expect(get(name)).toEqual(look(name))
          if (random.below(2) === 0) catalog.change(step)
          step()
          if (random.below(3) === 0) throw new Error('undone')
        })
      }
    } catch (error) {
      expect(error).toMatchObject({ message: 'undone' })
    }
    const name = random.pick(names)
    expect([name, get(name)]).toEqual([name, look(name)])
  }
})
