import { expect, test } from 'vitest'
import { announce } from '../../src/cli/serve/announcement.ts'

type Store = Parameters<typeof announce>[0]['store']

test.each([
  ['a node whose cells are all known', true, 1, 2, '3 cells: 1 stored; 2 changed since or never stored'],
  [
    'a node on a new machine',
    true,
    0,
    0,
    '3 cells: 0 stored; 0 changed since or never stored; the others come back from their backups in the background',
  ],
  [
    'one with --recovery first-use',
    false,
    0,
    0,
    '3 cells: 0 stored; 0 changed since or never stored; the others come back from their backups at their first use',
  ],
])('%s says how its cells stand', (_, recoverInBackground, stored, changed, line) => {
  const store = {
    id: 'store',
    registry: { countAll: () => 3 },
    retention: {
      summary: () => ({ stored, changed, oldestStoredAt: null, keep: 'all:1d', keepTenant: 'all:1d' }),
    },
    settings: { backups: { recoverInBackground } },
  } as unknown as Store
  const place = {
    address: 'http://127.0.0.1:1',
    console: true,
    dataDir: '/data',
    objectStore: 'file:///objects',
  }
  expect(announce({ ...place, store, firstKey: undefined }, false).split('\n')).toContain(line)
})
