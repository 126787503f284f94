import { once } from 'node:events'
import { beforeEach, describe, expect, test } from 'vitest'
import { bufferBody } from '../../../../src/backup/object-store/object-store.ts'
import { S3ObjectStore } from '../../../../src/backup/object-store/s3/s3-object-store.ts'
import type { CellErrorCode } from '../../../../src/errors.ts'
import { perTest } from '../../../support/per-test.ts'
import { expectBytes, expectCode, keysOf } from '../../../support/s3/object-store-checks.ts'
import {
  all,
  answer,
  drop,
  FaultyPlace,
  HASTY,
  isPart,
  isPut,
  neverAnswer,
  THREE_TRIES,
} from '../../../support/s3/s3-scripts.ts'
import { proceed, type Script } from '../../../support/s3/scripted-s3.ts'

const MIB = 1024 * 1024
const LARGE = 12 * MIB
const small = Buffer.from('a small object')

const place = FaultyPlace.perTest()
const s3 = perTest(() => place.s3)
let store: S3ObjectStore
beforeEach(() => {
  store = place.open()
})

describe('An endpoint that fails for a while', () => {
  test.each([
    ['503s', answer(503, 'ServiceUnavailable')],
    ['500s', answer(500, 'InternalError')],
    ['dropped connections', drop],
    ['silence', neverAnswer],
  ] satisfies [string, Script][])('is asked again: every request works in spite of %s', async (_, script) => {
    const failedBefore = new Map<string, number>()
    // Two fail of each request. The next ones have the time they need, if not each of them on a busy machine.
    const hasty = { ...HASTY, slowestBytesPerSecond: 10 * MIB }
    store = place.open({ ...(script === neverAnswer ? hasty : {}), attempts: 10 })
    s3.intercept = (request, exchange) => {
      const name = `${request.method} ${request.key} ${request.query}`
      const failed = failedBefore.get(name) ?? 0
      failedBefore.set(name, failed + 1)
      if (failed < 2) script(request, exchange)
      else proceed(request, exchange)
    }
    await store.put('a/small', bufferBody(small))
    await expectBytes(store, 'a/small', small)
    expect(await keysOf(store, 'a/')).toEqual(['a/small'])
    await store.put('a/large', bufferBody(Buffer.alloc(LARGE, 7)))
    expect(s3.objects.get('a/large')?.bytes.equals(Buffer.alloc(LARGE, 7))).toBe(true)
    expect([...s3.uploads]).toEqual([])
  })

  test.each([
    ['503s', answer(503, 'ServiceUnavailable')],
    ['dropped connections', drop],
    ['silence', neverAnswer],
  ] satisfies [string, Script][])(
    'and goes on failing with %s is unavailable, after a bounded number of requests',
    async (_, script) => {
      store = place.open(script === neverAnswer ? HASTY : THREE_TRIES)
      s3.interfere(all, script)
      const calls: Record<string, () => Promise<unknown>> = {
        head: () => store.head('a'),
        get: () => store.get('a'),
        list: () => keysOf(store, ''),
        delete: () => store.delete('a'),
        sweep: () => store.sweepUploads('', 1),
        put: () => store.put('a', bufferBody(small)),
      }
      for (const [name, call] of Object.entries(calls)) {
        s3.requests.length = 0
        await expectCode(call(), 'object_store_unavailable')
        expect(s3.requestsOf(all).length, name).toBe(3)
      }
    },
  )

  test('asks for fewer requests, and is unavailable', async () => {
    store = place.open({ attempts: 1 })
    s3.interfere(all, answer(503, 'SlowDown'))
    await expectCode(store.head('a'), 'object_store_unavailable')
    s3.interfere(all, answer(429, 'TooManyRequests'))
    await expectCode(store.get('a'), 'object_store_unavailable')
  })

  test('refuses connections, and is unavailable', async () => {
    await s3.stop()
    await expectCode(store.head('a'), 'object_store_unavailable')
    await expectCode(store.put('a', bufferBody(small)), 'object_store_unavailable')
    await expectCode(keysOf(store, ''), 'object_store_unavailable')
  })
})

describe('An endpoint that refuses', () => {
  test.each([
    [403, 'AccessDenied', 'object_store_error', /refused access.*credentials may/],
    [403, 'SignatureDoesNotMatch', 'object_store_error', /AWS_SECRET_ACCESS_KEY/],
    [403, 'InvalidAccessKeyId', 'object_store_error', /AWS_ACCESS_KEY_ID/],
    [400, 'ExpiredToken', 'object_store_error', /AWS_SESSION_TOKEN/],
    [404, 'NoSuchBucket', 'object_store_error', /bucket does not exist/],
    [403, 'RequestTimeTooSkewed', 'object_store_error', /clock/],
    [301, 'PermanentRedirect', 'object_store_error', /region/],
    [400, 'AuthorizationHeaderMalformed', 'object_store_error', /region/],
    [418, 'Teapot', 'object_store_error', /418 Teapot/],
  ] satisfies [number, string, CellErrorCode, RegExp][])(
    'with %i %s says what to look at',
    async (status, name, code, message) => {
      s3.interfere(all, answer(status, name))
      for (const call of [() => store.get('a'), () => keysOf(store, ''), () => store.delete('a')]) {
        s3.requests.length = 0
        const error = await call().then(
          () => undefined,
          (failed: unknown) => failed,
        )
        expect(error).toMatchObject({ code, message: expect.stringMatching(message) })
        expect(String(error)).not.toContain(s3.credentials.secretAccessKey)
        expect(String(error)).not.toContain(s3.credentials.accessKeyId)
      }
    },
  )

  test('a bucket that is not there is no empty one', async () => {
    const { endpoint, credentials } = s3
    const lost = new S3ObjectStore({ bucket: 'absent', endpoint, credentials, patience: THREE_TRIES })
    await expectCode(lost.head('a'), 'object_store_error')
    await expectCode(lost.get('a'), 'object_store_error')
    await expectCode(keysOf(lost, ''), 'object_store_error')
    await expectCode(lost.put('a', bufferBody(small)), 'object_store_error')
    await lost.close()
  })

  test('to show the bucket, and not its objects, is worked with', async () => {
    s3.interfere(({ key }) => key === '', answer(403, 'AccessDenied'))
    expect(await store.head('absent')).toBeUndefined()
    await store.put('a', bufferBody(small))
  })

  test('speaks no HTTP, or no S3', async () => {
    s3.interfere(all, (_, { response }) => response.socket?.end('hello\r\n'))
    await expectCode(store.get('a'), 'object_store_error')
    s3.interfere(all, (_, { send }) => send({ status: 404, body: Buffer.from('<html>not here</html>') }))
    await expectCode(store.get('a'), 'object_store_error')
    await expectCode(store.head('a'), 'object_store_error')
    s3.interfere(all, (_, { send }) => send({ status: 200, body: Buffer.from('{"not": "xml"}') }))
    await expectCode(keysOf(store, ''), 'object_store_error')
  })
})

describe('Requests', () => {
  test('carry no checksum that only Amazon understands, and expect no "100 continue"', async () => {
    await store.put('small', bufferBody(small))
    await store.put('large', bufferBody(Buffer.alloc(LARGE)))
    await store.get('small')
    for (const { headers, query } of s3.requests) {
      const names = Object.keys(headers).filter((name) =>
        /checksum|trailer|expect|transfer-encoding/.test(name),
      )
      expect(names).toEqual([])
      expect(headers['x-amz-content-sha256']).not.toMatch(/STREAMING/)
      expect([...query.keys()].filter((name) => name.includes('checksum'))).toEqual([])
    }
  })

  test('of a large object are its parts, each of a known length', async () => {
    await store.put('large', bufferBody(Buffer.alloc(LARGE)))
    const parts = s3.requestsOf(isPart).map(({ headers }) => Number(headers['content-length']))
    expect(parts.sort((a, b) => b - a)).toEqual([5 * MIB, 5 * MIB, 2 * MIB])
    expect(s3.requestsOf(isPut)).toEqual([])
  })

  test('that carry bytes get the time that those may need', async () => {
    store = place.open({ requestMs: 300, slowestBytesPerSecond: 10, attempts: 1 })
    s3.interfere(isPut, (_, { carryOut, send }) => void setTimeout(() => send(carryOut()), 600))
    await store.put('a', bufferBody(small))
    expect(s3.requestsOf(isPut).length).toBe(1)
  })

  test('end with the process that asked for them: a client that is closed lets go of its connections', async () => {
    await store.head('a')
    const { promise, resolve } = Promise.withResolvers<void>()
    const controller = new AbortController()
    s3.interfere(all, (_, { response }) => {
      once(response, 'close').then(() => resolve())
      controller.abort()
    })
    const waiting = expectCode(
      place.open({ requestMs: 60_000 }).head('a', { signal: controller.signal }),
      'object_store_unavailable',
    )
    await Promise.all([waiting, promise])
  })
})
