import { describe, expect, test } from 'vitest'
import { nearestName } from '../../src/base/options/known-names.ts'

describe('the nearest name', () => {
  test.each([
    ['objectStoer', 'objectStore'],
    ['backup', 'backups'],
    ['snapshotEvery', 'backups.snapshotEveryMs'],
    ['ttl', 'ttlSeconds'],
    ['ttl_seconds', 'ttlSeconds'],
    ['TTLSECONDS', 'ttlSeconds'],
    ['ttlSecs', 'ttlSeconds'],
    ['keepttl', 'keepTtl'],
  ])('of %s is %s', (given, near) => {
    const names = ['objectStore', 'backups', 'ttlSeconds', 'ttlMs', 'keepTtl', 'backups.snapshotEveryMs']

    expect(nearestName(given, names)).toBe(near)
  })

  test.each(['', 'x', 'colour', 'k'.repeat(65)])('of %s is none', (given) => {
    expect(nearestName(given, ['key', 'value', 'ttlSeconds'])).toBeUndefined()
  })

  test('is an exact one rather than one that it begins', () => {
    expect(nearestName('WORKER', ['WORKER_MEMORY', 'WORKERS', 'WORKER'])).toBe('WORKER')
  })
})
