import { describe, expect, test } from 'vitest'
import { DEFAULT_LIMITS } from '../../src/base/options/limits.ts'
import { resolveSettings } from '../../src/store/settings/settings.ts'
import type { StoreOptions } from '../../src/store/settings/store-options.ts'
import { thrownBy } from '../support/thrown.ts'

describe('defaults', () => {
  test('fill in what was not given', () => {
    expect(resolveSettings({})).toMatchObject({
      durability: 'full',
      sqlPolicy: 'trusted',
      limits: DEFAULT_LIMITS,
      backups: { concurrency: 4, restoreConcurrency: 4, deadlineMs: 86_400_000 },
      pageCacheBytes: 1_048_576,
      checkpointBytes: 4_194_304,
      objectStoreWaitMs: 60_000,
    })
  })

  test('are those of the contract', () => {
    expect(DEFAULT_LIMITS).toMatchObject({
      keyBytesMax: 1_024,
      valueBytesMax: 1_048_576,
      ttlSecondsMax: 3_153_600_000,
      kvKeysMax: 1_000,
      pageMax: 1_000,
      sqlBytesMax: 102_400,
      paramsMax: 32_766,
      batchOperationsMax: 1_000,
      cellBytesMax: 1_073_741_824,
    })
  })

  test('an option given as undefined is one not given', () => {
    const settings = resolveSettings({
      durability: undefined,
      limits: { keyBytesMax: undefined, valueBytesMax: 10 } as never,
      openCellsMax: undefined,
      backups: { concurrency: undefined },
    })
    expect(settings).toMatchObject({ durability: 'full', limits: { keyBytesMax: 1_024, valueBytesMax: 10 } })
    expect(settings.backups.concurrency).toBe(4)
  })

  test('back cells up every 15 minutes and every day, unless that is turned off', () => {
    const { backups } = resolveSettings({})
    expect(backups).toMatchObject({ incrementalEveryMs: 900_000, snapshotEveryMs: 86_400_000 })
    const off = resolveSettings({ backups: { incrementalEveryMs: null, snapshotEveryMs: null } })
    expect(off.backups).toMatchObject({ incrementalEveryMs: undefined, snapshotEveryMs: undefined })
  })

  test('what was given stays', () => {
    const options = {
      durability: 'relaxed',
      sqlPolicy: 'tenant',
      openCellsMax: 7,
      pageCacheBytes: 65_536,
      checkpointBytes: 1_000_000,
      objectStoreWaitMs: 1,
      backups: { snapshotEveryMs: 10, incrementalEveryMs: 5, keep: 'all:2d', concurrency: 4 },
    } as const
    expect(resolveSettings(options)).toMatchObject(options)
  })
})

describe('a setting that makes no sense is refused by its name', () => {
  const NUMBERS = ['openCellsMax', 'pageCacheBytes', 'checkpointBytes', 'objectStoreWaitMs'] as const
  const LIMITS = Object.keys(DEFAULT_LIMITS)
  const BACKUPS = [
    'snapshotEveryMs',
    'incrementalEveryMs',
    'drillEveryMs',
    'concurrency',
    'restoreConcurrency',
    'deadlineMs',
  ]
  const cases: [string, (value: unknown) => StoreOptions][] = [
    ...NUMBERS.map((name): [string, (value: unknown) => StoreOptions] => [
      name,
      (value) => ({ [name]: value }),
    ]),
    ...LIMITS.map((name): [string, (value: unknown) => StoreOptions] => [
      `limits.${name}`,
      (value) => ({ limits: { [name]: value } }),
    ]),
    ...BACKUPS.map((name): [string, (value: unknown) => StoreOptions] => [
      `backups.${name}`,
      (value) => ({ backups: { [name]: value } }),
    ]),
  ]
  test.each(cases)('%s', (name, options) => {
    for (const value of [0, -1, 1.5, Number.NaN, Infinity, 2 ** 53, '7', true, {}]) {
      const error = thrownBy(() => resolveSettings(options(value)))
      expect([error.code, error.details.field]).toEqual(['invalid_setting', name])
      expect(error.message).toContain(name)
    }
    expect(() => resolveSettings(options(7))).not.toThrow()
  })

  test.each([
    ['durability', { durability: 'FULL' }],
    ['durability', { durability: '' }],
    ['sqlPolicy', { sqlPolicy: 'none' }],
  ])('%s %j', (name, options) => {
    expect(thrownBy(() => resolveSettings(options as StoreOptions))).toMatchObject({
      code: 'invalid_setting',
      details: { field: name },
    })
  })

  test('more parameters than SQLite itself can bind', () => {
    expect(() => resolveSettings({ limits: { paramsMax: 32_766 } })).not.toThrow()
    expect(thrownBy(() => resolveSettings({ limits: { paramsMax: 32_767 } }))).toMatchObject({
      code: 'invalid_setting',
      details: { field: 'limits.paramsMax' },
    })
  })
})

test.each([
  ['without an object store', {}],
  ['without shipping', { objectStore: 'file:///objects', backups: { maxLagMs: null } }],
])('durability remote is refused %s: no change would be acknowledged', (_, options) => {
  expect(thrownBy(() => resolveSettings({ durability: 'remote', ...options }))).toMatchObject({
    code: 'invalid_setting',
    details: { field: 'durability' },
    message: expect.stringContaining('--max-lag'),
  })
  resolveSettings({ durability: 'remote', objectStore: 'file:///objects' })
})
