import { createHash } from 'node:crypto'
import { describe, expect, test } from 'vitest'
import { bufferBody } from '../../../../src/backup/object-store/object-store.ts'
import { CellError } from '../../../../src/errors.ts'
import { FakeClock } from '../../../support/fake-clock.ts'
import { perTest } from '../../../support/per-test.ts'
import { expectCode, keysOf } from '../../../support/s3/object-store-checks.ts'
import {
  answer,
  carryOutAndAnswer,
  carryOutAndDrop,
  FaultyPlace,
  isComplete,
  isHead,
  isPart,
  isPut,
  THREE_TRIES,
} from '../../../support/s3/s3-scripts.ts'
import { failure, isProbe, proceed, type S3Request, type Script } from '../../../support/s3/scripted-s3.ts'
import { rejectedBy } from '../../../support/thrown.ts'

const MIB = 1024 * 1024
const LARGE = 12 * MIB
const small = Buffer.from('a small object')

const place = FaultyPlace.perTest()
const s3 = perTest(() => place.s3)
const store = perTest(() => place.open())

describe('A put whose answer is lost', () => {
  test.each([
    ['a 500', carryOutAndAnswer(500, 'InternalError'), 1],
    ['a 500, again and again', carryOutAndAnswer(500, 'InternalError'), 100],
    ['a dropped connection', carryOutAndDrop, 1],
    ['a dropped connection, again and again', carryOutAndDrop, 100],
  ] satisfies [string, Script, number][])(
    'to %s is a success, since the object is there',
    async (_, script, times) => {
      for (const conditions of ['honoured', 'ignored'] as const) {
        s3.conditions = conditions
        s3.interfere(isPut, script, times)
        await store.put(`small/${conditions}`, bufferBody(small))
        expect(s3.objects.get(`small/${conditions}`)?.bytes).toEqual(small)
        s3.interfere(isComplete, script, times)
        await store.put(`large/${conditions}`, bufferBody(Buffer.alloc(LARGE, 1)))
        expect(s3.objects.get(`large/${conditions}`)?.bytes.length).toBe(LARGE)
        expect([...s3.uploads]).toEqual([])
      }
    },
  )

  test('and whose key somebody else has taken in between is refused, and their object stays', async () => {
    const theirs = {
      bytes: Buffer.from('theirs'),
      metadata: { 'x-amz-meta-cellstore-put': 'another' },
      etag: '"t"',
    }
    for (const script of [carryOutAndAnswer(412, 'PreconditionFailed'), answer(500, 'InternalError')]) {
      s3.interfere(isPut, (request, exchange) => {
        s3.objects.set(request.key, theirs)
        script(request, exchange)
      })
      await expectCode(store.put('contested', bufferBody(small)), 'object_exists')
      expect(s3.objects.get('contested')?.bytes).toEqual(theirs.bytes)
      s3.objects.delete('contested')
    }
  })

  test('and whose key is free afterwards can be tried again', async () => {
    s3.interfere(isPut, answer(412, 'PreconditionFailed'))
    await expectCode(store.put('a', bufferBody(small)), 'object_store_unavailable')
    s3.interfere(isPut, answer(409, 'ConditionalRequestConflict'))
    await expectCode(store.put('a', bufferBody(small)), 'object_store_unavailable')
  })

  test('and that its caller gave up is removed', async () => {
    const controller = new AbortController()
    s3.interfere(isPut, (_, { carryOut }) => {
      carryOut()
      controller.abort(new CellError('shutting_down', 'The node is shutting down.'))
    })
    await expectCode(store.put('a', bufferBody(small), { signal: controller.signal }), 'shutting_down')
    expect([...s3.objects.keys()]).toEqual([])
  })

  test('and that can not be looked up either fails as the put did', async () => {
    let isStored = false
    s3.intercept = (request, exchange) => {
      if (isProbe(request)) return proceed(request, exchange)
      if (isPut(request)) isStored = true
      if (isStored) return exchange.drop()
      proceed(request, exchange)
    }
    await expectCode(store.put('a', bufferBody(small)), 'object_store_unavailable')
  })
})

describe('A put that is confirmed', () => {
  test('and is not there is an error', async () => {
    s3.interfere(isPut, (_, { send }) => send({ status: 200, headers: { etag: '"x"' } }))
    await expectCode(store.put('a', bufferBody(small)), 'object_store_error')
  })

  test('and is there a moment later is a success', async () => {
    let looks = 0
    s3.interfere(isHead, (request, exchange) => {
      const isLate = s3.objects.has(request.key) && looks++ < 4
      if (isLate) exchange.send(failure(404, 'NotFound'))
      else proceed(request, exchange)
    })
    await store.put('a', bufferBody(small))
    expect(looks).toBe(5)
  })

  test('and is shorter than what was sent is an error, and is removed', async () => {
    s3.interfere(isPut, (request, exchange) => {
      exchange.send(exchange.carryOut())
      const object = s3.objects.get(request.key)
      if (object !== undefined) s3.objects.set(request.key, { ...object, bytes: Buffer.from('short') })
    })
    await expectCode(store.put('a', bufferBody(small)), 'object_store_error')
    expect([...s3.objects.keys()]).toEqual([])
  })

  test('where somebody else wrote over it, since the endpoint can not prevent that, is object_exists', async () => {
    s3.conditions = 'ignored'
    s3.interfere(isPut, (request, exchange) => {
      exchange.send(exchange.carryOut())
      const metadata = { 'x-amz-meta-cellstore-put': 'another' }
      s3.objects.set(request.key, { bytes: Buffer.from('a small OBJECT'), metadata, etag: '"t"' })
    })
    await expectCode(store.put('a', bufferBody(small)), 'object_exists')
    expect(s3.objects.get('a')?.bytes.toString()).toBe('a small OBJECT')
  })

  test('is one also where the endpoint drops user metadata', async () => {
    s3.interfere(isHead, (_, { carryOut, send }) => {
      const { 'content-length': length = 0, ...rest } = carryOut().headers ?? {}
      const status = 'etag' in rest ? 200 : 404
      send({ status, headers: { 'content-length': length } })
    })
    await store.put('a', bufferBody(small))
  })
})

describe('A bucket with object lock', () => {
  test('takes every object: each PUT carries the MD5 of its bytes', async () => {
    const isWithBytes = (request: S3Request) => isPut(request) || isPart(request)
    s3.intercept = (request, exchange) => {
      const md5 = createHash('md5').update(request.body).digest('base64')
      const isRefused = isWithBytes(request) && request.headers['content-md5'] !== md5
      if (isRefused) exchange.send(failure(400, 'InvalidRequest'))
      else proceed(request, exchange)
    }
    await store.put('small', bufferBody(small))
    await store.put('empty', bufferBody(Buffer.alloc(0)))
    await store.put('large', bufferBody(Buffer.alloc(LARGE, 7)))
    expect(store.conditionalWrites).toBe(true)
    expect([...s3.objects.keys()].sort()).toEqual(['empty', 'large', 'small'])
    expect(s3.requestsOf(isWithBytes).length).toBe(5)
  })
})

describe('Conditional writes', () => {
  test.each([
    ['honoured', true],
    ['ignored', false],
    ['refused', false],
  ] as const)('that are %s are found out once, before the first put', async (conditions, expected) => {
    s3.conditions = conditions
    expect(store.conditionalWrites).toBeUndefined()
    await Promise.all([store.put('a', bufferBody(small)), store.put('b', bufferBody(small))])
    expect(store.conditionalWrites).toBe(expected)
    await store.put('c', bufferBody(Buffer.alloc(LARGE)))
    const probes = s3.requests.filter((request) => isProbe(request) && isPut(request))
    expect(new Set(probes.map(({ key }) => key)).size).toBe(1)
    const sent = s3
      .requestsOf((request) => isPut(request) || isComplete(request))
      .map(({ headers }) => headers['if-none-match'])
    expect(sent).toEqual(sent.map(() => (expected ? '*' : undefined)))
    expect([...s3.objects.keys()].sort()).toEqual(['a', 'b', 'c'])
  })

  test('are asked about again after the question could not be answered', async () => {
    s3.intercept = (request, exchange) => (isProbe(request) ? exchange.drop() : proceed(request, exchange))
    await expectCode(store.put('a', bufferBody(small)), 'object_store_unavailable')
    expect(store.conditionalWrites).toBeUndefined()
    s3.intercept = proceed
    await store.put('a', bufferBody(small))
    expect(store.conditionalWrites).toBe(true)
  })

  test.each([
    [400, 'ExpiredToken'],
    [400, 'RequestTimeout'],
    [400, 'InvalidToken'],
    [400, 'InvalidArgument'],
    [403, 'AccessDenied'],
    [405, 'MethodNotAllowed'],
    [418, 'Teapot'],
    [500, 'InternalError'],
    // About a checksum, for example: the same request without the condition is refused, too.
    [501, 'NotImplemented'],
    [307, 'Elsewhere'],
  ])('are not given up for a %i %s, which is named: the next put asks again', async (status, code) => {
    s3.intercept = (request, exchange) =>
      isPut(request) ? exchange.send(failure(status, code)) : proceed(request, exchange)
    const { code: kind, message } = await rejectedBy(store.put('a', bufferBody(small)))
    expect(kind).toMatch(/^object_store_/)
    if (!/Token|Timeout/.test(code)) expect(message).toContain(`(${status} ${code})`)
    expect(store.conditionalWrites).toBeUndefined()
    s3.intercept = proceed
    await store.put('a', bufferBody(small))
    expect(store.conditionalWrites).toBe(true)
  })

  test('are not there where the same request works without them', async () => {
    const isConditional = ({ headers }: { headers: object }) => 'if-none-match' in headers
    s3.intercept = (request, exchange) =>
      isPut(request) && isConditional(request)
        ? exchange.send(failure(400, 'InvalidArgument'))
        : proceed(request, exchange)
    await store.put('a', bufferBody(small))
    expect(store.conditionalWrites).toBe(false)
  })

  test('are asked about again an hour later, where they were not there', async () => {
    const clock = new FakeClock()
    const later = place.open(THREE_TRIES, clock)
    s3.conditions = 'refused'
    await later.put('a', bufferBody(small))
    clock.advance(59 * 60_000)
    s3.conditions = 'honoured'
    await later.put('b', bufferBody(small))
    expect(later.conditionalWrites).toBe(false)
    clock.advance(60_000)
    await later.put('c', bufferBody(small))
    expect(later.conditionalWrites).toBe(true)
  })

  test('are known to be honoured also when somebody has removed the first probe', async () => {
    let removed = false
    s3.intercept = (request, exchange) => {
      proceed(request, exchange)
      if (isProbe(request) && isPut(request) && !removed) removed = s3.objects.delete(request.key)
    }
    await store.put('a', bufferBody(small))
    expect(removed).toBe(true)
    expect(store.conditionalWrites).toBe(true)
  })

  test('are known to be honoured also when the answer to the first probe was lost', async () => {
    let lost = false
    s3.intercept = (request, exchange) => {
      const use = isProbe(request) && isPut(request) && !lost ? carryOutAndDrop : proceed
      if (use === carryOutAndDrop) lost = true
      use(request, exchange)
    }
    await store.put('a', bufferBody(small))
    expect(store.conditionalWrites).toBe(true)
  })

  test('leave a probe behind only until the sweep, and out of every list', async () => {
    s3.intercept = (request, exchange) =>
      isProbe(request) && request.method === 'DELETE' ? exchange.drop() : proceed(request, exchange)
    await store.put('a', bufferBody(small))
    expect(s3.objects.size).toBe(2)
    expect(await keysOf(store, '')).toEqual(['a'])
    s3.intercept = proceed
    expect(await store.sweepUploads('', Date.UTC(2100, 0))).toBe(0)
    expect([...s3.objects.keys()]).toEqual(['a'])
  })
})
