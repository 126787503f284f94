import { describe, expect, test } from 'vitest'
import {
  COUNT,
  checkOptions,
  definedOnly,
  either,
  FLAG,
  group,
  having,
  maybe,
  oneOf,
  orNull,
  type Shape,
  SIGNAL,
  some,
  TEXT,
} from '../../src/base/options/option-shapes.ts'
import { thrownBy } from '../support/thrown.ts'

interface Options {
  ttlSeconds?: number
  keep?: boolean | undefined
  owner?: string | null
  mode?: 'read' | 'write' | undefined
  log?: { warn(): void } | undefined
  target?: string | { put(): void } | undefined
  signal?: AbortSignal | undefined
  limits?: { rows?: number | undefined } | undefined
}

const SHAPE: Shape<Options> = {
  ttlSeconds: COUNT,
  keep: maybe(FLAG),
  owner: orNull(TEXT),
  mode: maybe(oneOf('read', 'write')),
  log: maybe(having('warn')),
  target: maybe(either(TEXT, having('put'))),
  signal: maybe(SIGNAL),
  limits: maybe(some<{ rows: number }>({ rows: COUNT })),
}

const refused = (given: object, at?: string) => thrownBy(() => checkOptions(given as Options, SHAPE, { at }))

describe('options', () => {
  test('of the right types are taken, and those that may be are also undefined', () => {
    checkOptions({}, SHAPE)
    const target = Object.create({ put() {} })
    const { signal } = new AbortController()
    checkOptions({ ttlSeconds: 1, keep: false, owner: null, mode: 'read', target, signal }, SHAPE)
    checkOptions({ keep: undefined, mode: undefined, signal: undefined, limits: { rows: undefined } }, SHAPE)
  })

  test.each<[given: object, field: string, message: string]>([
    [{ keep: 'false' }, 'keep', 'keep must be true or false, but it is "false".'],
    [{ keep: 1 }, 'keep', 'keep must be true or false, but it is 1.'],
    [{ keep: null }, 'keep', 'keep must be true or false, but it is null.'],
    [{ ttlSeconds: 0 }, 'ttlSeconds', 'ttlSeconds must be a whole number above 0, but it is 0.'],
    [{ owner: 7 }, 'owner', 'owner must be a string, or null, but it is 7.'],
    [{ mode: 'reed' }, 'mode', 'mode must be read or write, but it is "reed".'],
    [{ log: {} }, 'log', 'log must be an object with warn(), but it is a plain object.'],
    [{ target: {} }, 'target', 'target must be a string or an object with put(), but it is a plain object.'],
    [{ signal: { aborted: true } }, 'signal', 'signal must be an AbortSignal, but it is a plain object.'],
    [{ limits: [] }, 'limits', 'limits must be an object, but it is a list.'],
    [{ limits: { rows: '5' } }, 'limits.rows', 'limits.rows must be a whole number above 0, but it is "5".'],
  ])('of a wrong type are refused by name: %o', (given, field, message) => {
    expect(refused(given)).toMatchObject({ code: 'invalid_request', message, details: { field } })
  })

  test('that narrow or guard are refused if they are there and undefined', () => {
    expect(refused({ owner: undefined })).toMatchObject({
      message: 'owner is undefined: give a string, or null, or leave it out.',
      details: { field: 'owner' },
    })
    expect(refused({ ttlSeconds: undefined }, 'entries[2].').details.field).toBe('entries[2].ttlSeconds')
  })

  test('that are not known are refused, with those that are known if no name is near', () => {
    const error = thrownBy(() => checkOptions({ colour: 1 } as object, { a: FLAG, b: FLAG } as object))
    expect(error).toMatchObject({
      code: 'invalid_request',
      message: 'colour is not known; known are a, b.',
      details: { field: 'colour' },
    })
  })

  test('of a group are named where somebody writes them beside it', () => {
    expect(refused({ row: 5 }).message).toBe('row is not known: did you mean limits.rows?')
  })

  test.each(['toString', 'constructor', '__proto__'])('take %s for no known name', (name) => {
    expect(refused(JSON.parse(`{ "${name}": 1 }`)).details).toEqual({ field: name })
  })

  test('are seen that are inherited: an option may come from defaults', () => {
    expect(refused(Object.create({ ttl: 5 })).details.field).toBe('ttl')
    expect(refused(Object.create({ keep: 'no' })).details.field).toBe('keep')
  })

  test.each([null, 5, 'x'])('are an object, and not %s', (given) => {
    expect(refused(given as never, 'backups.')).toMatchObject({
      message: 'backups must be an object.',
      details: { field: 'backups' },
    })
  })

  test('that hold a secret stay out of the message', () => {
    const shape = { key: { ...group({ id: TEXT }), secret: true as const } }
    const error = thrownBy(() => checkOptions({ key: 's3cr3t' } as never, shape as never))
    expect(error.message).toBe('key must be an object.')
  })
})

test('what is undefined can be left out of what is given', () => {
  expect(definedOnly({ a: 1, b: undefined, c: null })).toStrictEqual({ a: 1, c: null })
})
