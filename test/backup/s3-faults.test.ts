import { randomBytes } from 'node:crypto'
import { once } from 'node:events'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { bufferBody } from '../../src/backup/object-store.ts'
import { S3ObjectStore } from '../../src/backup/s3-object-store.ts'
import type { S3Patience } from '../../src/backup/s3-settings.ts'
import { CellError, type CellErrorCode } from '../../src/errors.ts'
import { collectAll, expectBytes, expectCode, keysOf } from '../contracts/object-store.contract.ts'
import { type Exchange, failure, type S3Request, ScriptedS3 } from '../support/scripted-s3.ts'

const MIB = 1024 * 1024
const LARGE = 12 * MIB
const THREE_TRIES: Partial<S3Patience> = { attempts: 3 }
/** Short waits, for tests where what is waited for never comes. */
const HASTY: Partial<S3Patience> = { requestMs: 200, idleMs: 200, slowestBytesPerSecond: 1e9, attempts: 3 }
const small = Buffer.from('a small object')

let s3: ScriptedS3
let store: S3ObjectStore

const opened: S3ObjectStore[] = []

function open(patience = THREE_TRIES): S3ObjectStore {
  const { bucket, endpoint, credentials } = s3
  const another = new S3ObjectStore({ bucket, endpoint, credentials, partSizeBytes: 5 * MIB, patience })
  opened.push(another)
  return another
}

beforeEach(async () => {
  s3 = await ScriptedS3.start()
  store = open()
})
afterEach(async () => {
  await Promise.all(opened.splice(0).map((each) => each.close()))
  await s3.stop()
})

type Script = (request: S3Request, exchange: Exchange) => void
const proceed: Script = (_, { carryOut, send }) => send(carryOut())

/** Applies `script` to the requests that `when` picks, the first `times` of them. */
function interfere(
  when: (request: S3Request) => boolean,
  script: Script,
  times = Number.POSITIVE_INFINITY,
): void {
  let left = times
  s3.intercept = (request, exchange) => {
    const use = when(request) && !isProbe(request) && left-- > 0 ? script : proceed
    use(request, exchange)
  }
}

function isProbe({ key }: S3Request): boolean {
  return key.includes('.cellstore/probes/')
}

function requestsOf(when: (request: S3Request) => boolean): S3Request[] {
  return s3.requests.filter((request) => when(request) && !isProbe(request))
}

const isPut = ({ method, query }: S3Request) => method === 'PUT' && !query.has('uploadId')
const isGet = ({ method, key }: S3Request) => method === 'GET' && key !== ''
const isPart = ({ method, query }: S3Request) => method === 'PUT' && query.has('partNumber')
const isBegin = ({ method, query }: S3Request) => method === 'POST' && query.has('uploads')
const isComplete = ({ method, query }: S3Request) => method === 'POST' && query.has('uploadId')
const isHead = ({ method, key }: S3Request) => method === 'HEAD' && key !== ''
const all = () => true

const answer =
  (status: number, code: string): Script =>
  (_, { send }) =>
    send(failure(status, code))
const carryOutAndAnswer =
  (status: number, code: string): Script =>
  (_, { carryOut, send }) => {
    carryOut()
    send(failure(status, code))
  }
const carryOutAndDrop: Script = (_, { carryOut, drop }) => {
  carryOut()
  drop()
}
const neverAnswer: Script = () => {}

describe('An endpoint that fails for a while', () => {
  it.each([
    ['503s', answer(503, 'ServiceUnavailable')],
    ['500s', answer(500, 'InternalError')],
    ['dropped connections', (_, { drop }) => drop()],
    ['silence', neverAnswer],
  ] satisfies [string, Script][])('is asked again: every request works in spite of %s', async (_, script) => {
    const failedBefore = new Map<string, number>()
    // Two of five requests fail; the others have the time they need, also on a busy machine.
    store = open({ ...(script === neverAnswer ? HASTY : {}), attempts: 5 })
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

  it.each([
    ['503s', answer(503, 'ServiceUnavailable')],
    ['dropped connections', (_, { drop }) => drop()],
    ['silence', neverAnswer],
  ] satisfies [string, Script][])(
    'and goes on failing with %s is unavailable, after a bounded number of requests',
    async (_, script) => {
      store = open(script === neverAnswer ? HASTY : THREE_TRIES)
      interfere(all, script)
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
        expect(requestsOf(all).length, name).toBe(3)
      }
    },
  )

  it('asks for fewer requests, and is unavailable', async () => {
    store = open({ attempts: 1 })
    interfere(all, answer(503, 'SlowDown'))
    await expectCode(store.head('a'), 'object_store_unavailable')
    interfere(all, answer(429, 'TooManyRequests'))
    await expectCode(store.get('a'), 'object_store_unavailable')
  })

  it('refuses connections, and is unavailable', async () => {
    await s3.stop()
    await expectCode(store.head('a'), 'object_store_unavailable')
    await expectCode(store.put('a', bufferBody(small)), 'object_store_unavailable')
    await expectCode(keysOf(store, ''), 'object_store_unavailable')
    s3 = await ScriptedS3.start()
  })
})

describe('A body that is being read', () => {
  const bytes = randomBytes(2 * MIB)
  beforeEach(async () => {
    await store.put('object', bufferBody(bytes))
  })

  /** Sends the headers and the beginning of a body, then does something else. */
  function afterBytes(count: number, then: (exchange: Exchange) => void): Script {
    return (_, exchange) => {
      const { status, headers = {}, body = Buffer.alloc(0) } = exchange.carryOut()
      exchange.response.writeHead(status, { ...headers, 'content-length': body.length })
      exchange.response.write(body.subarray(0, count), () => then(exchange))
    }
  }

  it('and breaks off is asked for again from there, and arrives whole', async () => {
    interfere(
      isGet,
      afterBytes(300_000, ({ drop }) => drop()),
      2,
    )
    await expectBytes(store, 'object', bytes)
    const ranges = requestsOf(isGet).map(({ headers }) => headers.range)
    expect(ranges.length).toBe(3)
    expect(ranges[0]).toBeUndefined()
    for (const range of ranges.slice(1)) expect(range).toMatch(/^bytes=[1-9]\d*-2097151$/)
  })

  it('and breaks off in a range is asked for again within it', async () => {
    interfere(
      isGet,
      afterBytes(100_000, ({ drop }) => drop()),
      1,
    )
    const content = await store.get('object', { range: { offset: 1000, length: 500_000 } })
    const chunks = await collectAll(content?.body ?? nobody())
    expect(Buffer.concat(chunks).equals(bytes.subarray(1000, 501_000))).toBe(true)
  })

  it('of which an endpoint sends less than was asked for is asked for again', async () => {
    let gets = 0
    interfere(isGet, (request, exchange) => {
      if (gets++ === 0) return afterBytes(300_000, ({ drop }) => drop())(request, exchange)
      if (gets > 2) return proceed(request, exchange)
      const { body = Buffer.alloc(0), headers = {} } = exchange.carryOut()
      const from = bytes.length - body.length
      const part = body.subarray(0, 1000)
      const range = `bytes ${from}-${from + 999}/${bytes.length}`
      exchange.send({
        status: 206,
        headers: { ...headers, 'content-range': range, 'content-length': 1000 },
        body: part,
      })
    })
    await expectBytes(store, 'object', bytes)
    expect(gets).toBe(3)
  })

  it('and breaks off before anybody reads it does the process no harm', async () => {
    const { promise: isCut, resolve } = Promise.withResolvers<void>()
    interfere(
      isGet,
      afterBytes(300_000, ({ drop, response }) => {
        response.once('close', resolve)
        drop()
      }),
      1,
    )
    const content = await store.get('object')
    await isCut
    // A round trip later the client has seen the cut, too.
    await store.head('object')
    expect(Buffer.concat(await collectAll(content?.body ?? nobody())).equals(bytes)).toBe(true)
  })

  it('and stalls is asked for again', async () => {
    store = open(HASTY)
    interfere(
      isGet,
      afterBytes(300_000, () => {}),
      1,
    )
    await expectBytes(store, 'object', bytes)
  })

  it.each([
    ['breaks off', ({ drop }: Exchange) => drop()],
    ['stalls', () => {}],
  ])('and always %s before its first byte ends in an error, not in an end', async (_, then) => {
    store = open({ ...THREE_TRIES, idleMs: 300 })
    interfere(isGet, (request, exchange) => {
      const from = /^bytes=(\d+)-/.exec(request.headers.range ?? '')?.[1] ?? '0'
      afterBytes(from === '0' ? 1000 : 0, then)(request, exchange)
      exchange.response.flushHeaders()
    })
    const content = await store.get('object')
    await expectCode(collectAll(content?.body ?? nobody()), 'object_store_unavailable')
    expect(requestsOf(isGet).length).toBe(3)
  })

  it('and trickles ends at the deadline of the call', async () => {
    store = open({ ...THREE_TRIES, deadlineMs: 400, slowestBytesPerSecond: 1e9 })
    interfere(isGet, (_, { carryOut, response }) => {
      const { headers, body = Buffer.alloc(0) } = carryOut()
      response.writeHead(200, headers)
      let sent = 0
      const next = () => {
        if (!response.destroyed) response.write(body.subarray(sent++, sent), () => setTimeout(next, 20))
      }
      next()
    })
    const content = await store.get('object')
    await expectCode(collectAll(content?.body ?? nobody()), 'object_store_unavailable')
    expect(requestsOf(isGet).length).toBe(1)
  })

  it('and has no length is refused: its early end would look like its end', async () => {
    interfere(isGet, (_, { carryOut, response }) => {
      const { body, headers: { etag = '' } = {} } = carryOut()
      response.socket?.end(
        `HTTP/1.1 200 OK\r\netag: ${etag}\r\nconnection: close\r\n\r\n${body?.subarray(0, 1000).toString('latin1')}`,
      )
    })
    await expectCode(store.get('object'), 'object_store_error')
  })

  it('and is of another object when it is asked for again is refused', async () => {
    interfere(
      isGet,
      afterBytes(300_000, ({ drop }) => {
        s3.objects.set('object', { bytes: randomBytes(2 * MIB), metadata: {}, etag: '"another"' })
        drop()
      }),
      1,
    )
    const content = await store.get('object')
    await expectCode(collectAll(content?.body ?? nobody()), 'object_store_error')
  })

  it('and is gone when it is asked for again is refused', async () => {
    interfere(
      isGet,
      afterBytes(300_000, ({ drop }) => {
        s3.objects.delete('object')
        drop()
      }),
      1,
    )
    const content = await store.get('object')
    await expectCode(collectAll(content?.body ?? nobody()), 'object_store_error')
  })

  it('from an endpoint that ignores ranges is refused', async () => {
    interfere(isGet, (_, { send }) => send({ status: 200, headers: { etag: '"x"' }, body: bytes }))
    await expectCode(store.get('object', { range: { offset: 10, length: 10 } }), 'object_store_error')
    // From the beginning the answer holds what was asked for, and more.
    const content = await store.get('object', { range: { offset: 0, length: 10 } })
    expect(Buffer.concat(await collectAll(content?.body ?? nobody()))).toEqual(bytes.subarray(0, 10))
  })

  async function* nobody(): AsyncGenerator<Uint8Array> {}
})

describe('A put whose answer is lost', () => {
  it.each([
    ['a 500', carryOutAndAnswer(500, 'InternalError'), 1],
    ['a 500, again and again', carryOutAndAnswer(500, 'InternalError'), 100],
    ['a dropped connection', carryOutAndDrop, 1],
    ['a dropped connection, again and again', carryOutAndDrop, 100],
  ] satisfies [string, Script, number][])(
    'to %s is a success, since the object is there',
    async (_, script, times) => {
      for (const conditions of ['honoured', 'ignored'] as const) {
        s3.conditions = conditions
        interfere(isPut, script, times)
        await store.put(`small/${conditions}`, bufferBody(small))
        expect(s3.objects.get(`small/${conditions}`)?.bytes).toEqual(small)
        interfere(isComplete, script, times)
        await store.put(`large/${conditions}`, bufferBody(Buffer.alloc(LARGE, 1)))
        expect(s3.objects.get(`large/${conditions}`)?.bytes.length).toBe(LARGE)
        expect([...s3.uploads]).toEqual([])
      }
    },
  )

  it('and whose key somebody else has taken in between is refused, and their object stays', async () => {
    const theirs = {
      bytes: Buffer.from('theirs'),
      metadata: { 'x-amz-meta-cellstore-put': 'another' },
      etag: '"t"',
    }
    for (const script of [carryOutAndAnswer(412, 'PreconditionFailed'), answer(500, 'InternalError')]) {
      interfere(isPut, (request, exchange) => {
        s3.objects.set(request.key, theirs)
        script(request, exchange)
      })
      await expectCode(store.put('contested', bufferBody(small)), 'object_exists')
      expect(s3.objects.get('contested')?.bytes).toEqual(theirs.bytes)
      s3.objects.delete('contested')
    }
  })

  it('and whose key is free afterwards can be tried again', async () => {
    interfere(isPut, answer(412, 'PreconditionFailed'))
    await expectCode(store.put('a', bufferBody(small)), 'object_store_unavailable')
    interfere(isPut, answer(409, 'ConditionalRequestConflict'))
    await expectCode(store.put('a', bufferBody(small)), 'object_store_unavailable')
  })

  it('and that its caller gave up is removed', async () => {
    const controller = new AbortController()
    interfere(isPut, (_, { carryOut }) => {
      carryOut()
      controller.abort(new CellError('shutting_down', 'The node is shutting down.'))
    })
    await expectCode(store.put('a', bufferBody(small), { signal: controller.signal }), 'shutting_down')
    expect([...s3.objects.keys()]).toEqual([])
  })

  it('and that can not be looked up either fails as the put did', async () => {
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
  it('and is not there is an error', async () => {
    interfere(isPut, (_, { send }) => send({ status: 200, headers: { etag: '"x"' } }))
    await expectCode(store.put('a', bufferBody(small)), 'object_store_error')
  })

  it('and is there a moment later is a success', async () => {
    let looks = 0
    interfere(isHead, (request, exchange) => {
      const isLate = s3.objects.has(request.key) && looks++ < 4
      if (isLate) exchange.send(failure(404, 'NotFound'))
      else proceed(request, exchange)
    })
    await store.put('a', bufferBody(small))
    expect(looks).toBe(5)
  })

  it('and is shorter than what was sent is an error, and is removed', async () => {
    interfere(isPut, (request, exchange) => {
      exchange.send(exchange.carryOut())
      const object = s3.objects.get(request.key)
      if (object !== undefined) s3.objects.set(request.key, { ...object, bytes: Buffer.from('short') })
    })
    await expectCode(store.put('a', bufferBody(small)), 'object_store_error')
    expect([...s3.objects.keys()]).toEqual([])
  })

  it('where somebody else wrote over it, since the endpoint can not prevent that, is object_exists', async () => {
    s3.conditions = 'ignored'
    interfere(isPut, (request, exchange) => {
      exchange.send(exchange.carryOut())
      const metadata = { 'x-amz-meta-cellstore-put': 'another' }
      s3.objects.set(request.key, { bytes: Buffer.from('a small OBJECT'), metadata, etag: '"t"' })
    })
    await expectCode(store.put('a', bufferBody(small)), 'object_exists')
    expect(s3.objects.get('a')?.bytes.toString()).toBe('a small OBJECT')
  })

  it('is one also where the endpoint drops user metadata', async () => {
    interfere(isHead, (_, { carryOut, send }) => {
      const { 'content-length': length = 0, ...rest } = carryOut().headers ?? {}
      const status = 'etag' in rest ? 200 : 404
      send({ status, headers: { 'content-length': length } })
    })
    await store.put('a', bufferBody(small))
  })
})

describe('An upload in parts', () => {
  const body = bufferBody(Buffer.alloc(LARGE, 3))

  it.each([
    ['its beginning', isBegin],
    ['a part', isPart],
    ['its end', isComplete],
  ])('is ended when %s fails, and leaves nothing', async (_, when) => {
    for (const script of [answer(503, 'ServiceUnavailable'), answer(403, 'AccessDenied'), neverAnswer]) {
      store = open(script === neverAnswer ? HASTY : THREE_TRIES)
      interfere(when, script)
      await expect(store.put('large', body)).rejects.toBeInstanceOf(CellError)
      expect([...s3.uploads]).toEqual([])
      expect([...s3.objects.keys()]).toEqual([])
    }
  })

  it('says why it failed, not why it could not be ended', async () => {
    interfere(
      (request) => isPart(request) || request.method === 'DELETE',
      (request, exchange) =>
        exchange.send(isPart(request) ? failure(403, 'AccessDenied') : failure(500, 'InternalError')),
    )
    await expectCode(store.put('large', body), 'object_store_error')
  })

  it.each([
    ['its beginning', isBegin],
    ['a part', isPart],
    ['its end', isComplete],
  ])('is ended when its caller gives up during %s', async (_, when) => {
    const controller = new AbortController()
    interfere(when, (_request, { carryOut }) => {
      carryOut()
      controller.abort()
    })
    await expectCode(store.put('large', body, { signal: controller.signal }), 'object_store_unavailable')
    expect([...s3.uploads]).toEqual([])
    expect([...s3.objects.keys()]).toEqual([])
  })

  it('is ended when the store is closed', async () => {
    const { promise: isSending, resolve } = Promise.withResolvers<void>()
    interfere(isPart, () => resolve())
    const put = expectCode(store.put('large', body), 'store_closed')
    await isSending
    await store.close()
    await put
    expect([...s3.uploads]).toEqual([])
  })

  it('leaves no second upload when the answer to its beginning was lost', async () => {
    interfere(isBegin, carryOutAndDrop, 1)
    await store.put('large', body)
    expect(s3.objects.get('large')?.bytes.length).toBe(LARGE)
    expect([...s3.uploads]).toEqual([])
  })

  it('does not end the uploads of other keys', async () => {
    const metadata = {}
    s3.uploads.set('other', { key: 'large-not', metadata, parts: new Map(), begun: new Date() })
    interfere(isBegin, carryOutAndDrop, 1)
    await store.put('large', body)
    expect([...s3.uploads.keys()]).toEqual(['other'])
  })

  it('sees an object that came while it sent, also where the endpoint checks no condition at its end', async () => {
    s3.conditions = 'ignored'
    interfere(isPart, (request, exchange) => {
      s3.objects.set('large', { bytes: Buffer.from('theirs'), metadata: {}, etag: '"t"' })
      proceed(request, exchange)
    })
    await expectCode(store.put('large', body), 'object_exists')
    expect(s3.objects.get('large')?.bytes.toString()).toBe('theirs')
    expect([...s3.uploads]).toEqual([])
  })

  it('whose end is answered with 200 and an error in the body has failed', async () => {
    interfere(isComplete, (_, { send }) => send({ ...failure(200, 'AccessDenied'), status: 200 }))
    await expect(store.put('large', body)).rejects.toBeInstanceOf(CellError)
    expect([...s3.uploads]).toEqual([])
    expect([...s3.objects.keys()]).toEqual([])
  })
})

describe('An endpoint that refuses', () => {
  it.each([
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
      interfere(all, answer(status, name))
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

  it('a bucket that is not there is no empty one', async () => {
    const { endpoint, credentials } = s3
    const lost = new S3ObjectStore({ bucket: 'absent', endpoint, credentials, patience: THREE_TRIES })
    await expectCode(lost.head('a'), 'object_store_error')
    await expectCode(lost.get('a'), 'object_store_error')
    await expectCode(keysOf(lost, ''), 'object_store_error')
    await expectCode(lost.put('a', bufferBody(small)), 'object_store_error')
    await lost.close()
  })

  it('to show the bucket, and not its objects, is worked with', async () => {
    interfere(({ key }) => key === '', answer(403, 'AccessDenied'))
    expect(await store.head('absent')).toBeUndefined()
    await store.put('a', bufferBody(small))
  })

  it('speaks no HTTP, or no S3', async () => {
    interfere(all, (_, { response }) => response.socket?.end('hello\r\n'))
    await expectCode(store.get('a'), 'object_store_error')
    interfere(all, (_, { send }) => send({ status: 404, body: Buffer.from('<html>not here</html>') }))
    await expectCode(store.get('a'), 'object_store_error')
    await expectCode(store.head('a'), 'object_store_error')
    interfere(all, (_, { send }) => send({ status: 200, body: Buffer.from('{"not": "xml"}') }))
    await expectCode(keysOf(store, ''), 'object_store_error')
  })
})

describe('Conditional writes', () => {
  it.each([
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
    const sent = requestsOf((request) => isPut(request) || isComplete(request)).map(
      ({ headers }) => headers['if-none-match'],
    )
    expect(sent).toEqual(sent.map(() => (expected ? '*' : undefined)))
    expect([...s3.objects.keys()].sort()).toEqual(['a', 'b', 'c'])
  })

  it('are asked about again after the question could not be answered', async () => {
    s3.intercept = (request, exchange) => (isProbe(request) ? exchange.drop() : proceed(request, exchange))
    await expectCode(store.put('a', bufferBody(small)), 'object_store_unavailable')
    expect(store.conditionalWrites).toBeUndefined()
    s3.intercept = proceed
    await store.put('a', bufferBody(small))
    expect(store.conditionalWrites).toBe(true)
  })

  it('are known to be honoured also when the answer to the first probe was lost', async () => {
    let lost = false
    s3.intercept = (request, exchange) => {
      const use = isProbe(request) && isPut(request) && !lost ? carryOutAndDrop : proceed
      if (use === carryOutAndDrop) lost = true
      use(request, exchange)
    }
    await store.put('a', bufferBody(small))
    expect(store.conditionalWrites).toBe(true)
  })

  it('leave a probe behind only until the sweep, and out of every list', async () => {
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

describe('Requests', () => {
  it('carry no checksum that only Amazon understands, and expect no "100 continue"', async () => {
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

  it('of a large object are its parts, each of a known length', async () => {
    await store.put('large', bufferBody(Buffer.alloc(LARGE)))
    const parts = requestsOf(isPart).map(({ headers }) => Number(headers['content-length']))
    expect(parts.sort((a, b) => b - a)).toEqual([5 * MIB, 5 * MIB, 2 * MIB])
    expect(requestsOf(isPut)).toEqual([])
  })

  it('that carry bytes get the time that those may need', async () => {
    store = open({ requestMs: 300, slowestBytesPerSecond: 10, attempts: 1 })
    interfere(isPut, (_, { carryOut, send }) => void setTimeout(() => send(carryOut()), 600))
    await store.put('a', bufferBody(small))
    expect(requestsOf(isPut).length).toBe(1)
  })

  it('end with the process that asked for them: a client that is closed lets go of its connections', async () => {
    await store.head('a')
    const { promise, resolve } = Promise.withResolvers<void>()
    interfere(all, (_, { response }) => void once(response, 'close').then(() => resolve()))
    const waiting = expectCode(
      open({ requestMs: 60_000 }).head('a', { signal: AbortSignal.timeout(50) }),
      'object_store_unavailable',
    )
    await Promise.all([waiting, promise])
  })
})

describe('A list', () => {
  it('goes over as many pages as there are', async () => {
    s3.pageSize = 3
    const keys = Array.from({ length: 10 }, (_, n) => `k/${n}`)
    for (const key of keys) s3.objects.set(key, { bytes: small, metadata: {}, etag: '"x"' })
    expect(await keysOf(store, 'k/')).toEqual(keys)
    expect(await keysOf(store, 'k/', 'k/4')).toEqual(keys.slice(5))
    for (const key of keys) {
      s3.uploads.set(key, { key, metadata: {}, parts: new Map(), begun: new Date(0) })
    }
    expect(await store.sweepUploads('k/', 1)).toBe(10)
  })

  it('leaves out what is no object of ours', async () => {
    for (const key of ['a', 'folder/', 'a//b', '.cellstore/x']) {
      s3.objects.set(key, { bytes: small, metadata: {}, etag: '"x"' })
    }
    expect(await keysOf(store, '')).toEqual(['a'])
  })

  it.each([
    [
      'gives the same page for ever',
      '<IsTruncated>true</IsTruncated><NextContinuationToken>t</NextContinuationToken>',
    ],
    ['does not say how it goes on', '<IsTruncated>true</IsTruncated>'],
  ])('that %s is an error', async (_, end) => {
    interfere(all, (_request, { send }) =>
      send({ status: 200, body: Buffer.from(`<ListBucketResult>${end}</ListBucketResult>`) }),
    )
    await expectCode(keysOf(store, ''), 'object_store_error')
  })

  it('that goes back is an error, since keys could be missing', async () => {
    let page = 0
    interfere(all, (_, { send }) => {
      const key = ['b', 'a'][page++]
      const content = `<Contents><Key>${key}</Key><Size>1</Size></Contents>`
      const next =
        page === 1 ? '<IsTruncated>true</IsTruncated><NextContinuationToken>t</NextContinuationToken>' : ''
      send({ status: 200, body: Buffer.from(`<ListBucketResult>${content}${next}</ListBucketResult>`) })
    })
    await expectCode(keysOf(store, ''), 'object_store_error')
  })
})
