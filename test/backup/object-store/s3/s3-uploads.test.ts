import { setTimeout } from 'node:timers/promises'
import { beforeEach, describe, expect, test } from 'vitest'
import { bufferBody } from '../../../../src/backup/object-store/object-store.ts'
import type { S3ObjectStore } from '../../../../src/backup/object-store/s3/s3-object-store.ts'
import { CellError } from '../../../../src/errors.ts'
import { perTest } from '../../../support/per-test.ts'
import { expectCode } from '../../../support/s3/object-store-checks.ts'
import {
  answer,
  carryOutAndDrop,
  FaultyPlace,
  HASTY,
  isBegin,
  isComplete,
  isPart,
  neverAnswer,
  THREE_TRIES,
} from '../../../support/s3/s3-scripts.ts'
import { failure, proceed } from '../../../support/s3/scripted-s3.ts'

const MIB = 1024 * 1024
const LARGE = 12 * MIB

const place = FaultyPlace.perTest()
const s3 = perTest(() => place.s3)
let store: S3ObjectStore
beforeEach(() => {
  store = place.open()
})

describe('An upload in parts', () => {
  const body = bufferBody(Buffer.alloc(LARGE, 3))

  test.each([
    ['its beginning', isBegin],
    ['a part', isPart],
    ['its end', isComplete],
  ])('is ended when %s fails, and leaves nothing', async (_, when) => {
    for (const script of [answer(503, 'ServiceUnavailable'), answer(403, 'AccessDenied'), neverAnswer]) {
      store = place.open(script === neverAnswer ? HASTY : THREE_TRIES)
      s3.interfere(when, script)
      await expect(store.put('large', body)).rejects.toBeInstanceOf(CellError)
      expect([...s3.uploads]).toEqual([])
      expect([...s3.objects.keys()]).toEqual([])
    }
  })

  test('says why it failed, not why it could not be ended', async () => {
    s3.interfere(
      (request) => isPart(request) || request.method === 'DELETE',
      (request, exchange) =>
        exchange.send(isPart(request) ? failure(403, 'AccessDenied') : failure(500, 'InternalError')),
    )
    await expectCode(store.put('large', body), 'object_store_error')
  })

  test.each([
    ['its beginning', isBegin],
    ['a part', isPart],
    ['its end', isComplete],
  ])('is ended when its caller gives up during %s, which nobody answers', async (_, when) => {
    const controller = new AbortController()
    store = place.open({ ...THREE_TRIES, deadlineMs: 300 })
    s3.interfere(when, (_request, { carryOut }) => {
      carryOut()
      controller.abort()
    })
    await expectCode(store.put('large', body, { signal: controller.signal }), 'object_store_unavailable')
    expect([...s3.uploads]).toEqual([])
    expect([...s3.objects.keys()]).toEqual([])
  })

  test('is ended when its caller gives up before its beginning shows', async () => {
    const controller = new AbortController()
    s3.interfere(isBegin, async (_, { carryOut, send }) => {
      controller.abort()
      await setTimeout(200)
      send(carryOut())
    })
    await expectCode(store.put('large', body, { signal: controller.signal }), 'object_store_unavailable')
    // Whoever did not wait for the answer is done by now, and saw nothing to end.
    await setTimeout(300)
    expect([...s3.uploads]).toEqual([])
  })

  test('leaves no object when its caller gives up before its end shows', async () => {
    const controller = new AbortController()
    s3.interfere(isComplete, async (_, { carryOut, send }) => {
      const answered = carryOut()
      const objects = [...s3.objects]
      s3.objects.clear()
      controller.abort()
      await setTimeout(200)
      for (const [key, object] of objects) s3.objects.set(key, object)
      send(answered)
    })
    await expectCode(store.put('large', body, { signal: controller.signal }), 'object_store_unavailable')
    await setTimeout(300)
    expect([...s3.objects.keys()]).toEqual([])
    expect([...s3.uploads]).toEqual([])
  })

  test('is ended when the store is closed', async () => {
    const { promise: isSending, resolve } = Promise.withResolvers<void>()
    s3.interfere(isPart, () => resolve())
    const put = expectCode(store.put('large', body), 'store_closed')
    await isSending
    await store.close()
    await put
    expect([...s3.uploads]).toEqual([])
  })

  test('leaves no second upload when the answer to its beginning was lost', async () => {
    s3.interfere(isBegin, carryOutAndDrop, 1)
    await store.put('large', body)
    expect(s3.objects.get('large')?.bytes.length).toBe(LARGE)
    expect([...s3.uploads]).toEqual([])
  })

  test('does not end the uploads of other keys', async () => {
    const metadata = {}
    s3.uploads.set('other', { key: 'large-not', metadata, parts: new Map(), begun: new Date() })
    s3.interfere(isBegin, carryOutAndDrop, 1)
    await store.put('large', body)
    expect([...s3.uploads.keys()]).toEqual(['other'])
  })

  test('sees an object that came while it sent, also where the endpoint checks no condition at its end', async () => {
    s3.conditions = 'ignored'
    s3.interfere(isPart, (request, exchange) => {
      s3.objects.set('large', { bytes: Buffer.from('theirs'), metadata: {}, etag: '"t"' })
      proceed(request, exchange)
    })
    await expectCode(store.put('large', body), 'object_exists')
    expect(s3.objects.get('large')?.bytes.toString()).toBe('theirs')
    expect([...s3.uploads]).toEqual([])
  })

  test('whose end is answered with 200 and an error in the body has failed', async () => {
    s3.interfere(isComplete, (_, { send }) => send({ ...failure(200, 'AccessDenied'), status: 200 }))
    await expect(store.put('large', body)).rejects.toBeInstanceOf(CellError)
    expect([...s3.uploads]).toEqual([])
    expect([...s3.objects.keys()]).toEqual([])
  })
})
