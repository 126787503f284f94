import { describe, expect, test } from 'vitest'
import { checkNames, nearestName } from '../../src/base/known-names.ts'
import { thrownBy } from '../support/thrown.ts'

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

describe('checking names', () => {
  const known = { ttlSeconds: true, ttlMs: true } as const

  test('takes the known ones, also as undefined', () => {
    checkNames({ ttlSeconds: 1, ttlMs: undefined }, known)
    checkNames({}, known)
  })

  test('says what is taken if no name is near', () => {
    expect(thrownBy(() => checkNames({ colour: 1 }, known))).toMatchObject({
      code: 'invalid_request',
      message: 'colour is not known; known are ttlSeconds, ttlMs.',
      details: { field: 'colour' },
    })
  })

  test.each(['toString', 'constructor', '__proto__'])('takes %s for no known name', (name) => {
    const given = JSON.parse(`{ "${name}": 1 }`)
    expect(thrownBy(() => checkNames(given, known)).details).toEqual({ field: name })
  })

  test('sees names that are inherited: an option may come from defaults', () => {
    expect(thrownBy(() => checkNames(Object.create({ ttl: 5 }), known)).details.field).toBe('ttl')
  })

  test.each([null, 5, 'x'])('refuses %s in place of an object', (given) => {
    expect(thrownBy(() => checkNames(given as never, known, { at: 'backups.' }))).toMatchObject({
      message: 'backups must be an object.',
      details: { field: 'backups' },
    })
  })
})
