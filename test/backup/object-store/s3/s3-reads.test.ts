import { randomBytes } from 'node:crypto'
import { beforeEach, describe, expect, test } from 'vitest'
import { bufferBody } from '../../../../src/backup/object-store/object-store.ts'
import type { S3ObjectStore } from '../../../../src/backup/object-store/s3/s3-object-store.ts'
import { perTest } from '../../../support/per-test.ts'
import { collectAll, expectBytes, expectCode, keysOf } from '../../../support/s3/object-store-checks.ts'
import { all, FaultyPlace, HASTY, isGet, THREE_TRIES } from '../../../support/s3/s3-scripts.ts'
import { type Exchange, failure, proceed, type Script } from '../../../support/s3/scripted-s3.ts'

const MIB = 1024 * 1024
const small = Buffer.from('a small object')

const place = FaultyPlace.perTest()
const s3 = perTest(() => place.s3)
let store: S3ObjectStore
beforeEach(() => {
  store = place.open()
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

  test('and breaks off is asked for again from there, and arrives whole', async () => {
    s3.interfere(
      isGet,
      afterBytes(300_000, ({ drop }) => drop()),
      2,
    )
    await expectBytes(store, 'object', bytes)
    const ranges = s3.requestsOf(isGet).map(({ headers }) => headers.range)
    expect(ranges.length).toBe(3)
    expect(ranges[0]).toBeUndefined()
    for (const range of ranges.slice(1)) expect(range).toMatch(/^bytes=[1-9]\d*-2097151$/)
  })

  test('and breaks off in a range is asked for again within it', async () => {
    s3.interfere(
      isGet,
      afterBytes(100_000, ({ drop }) => drop()),
      1,
    )
    const content = await store.get('object', { range: { offset: 1000, length: 500_000 } })
    const chunks = await collectAll(content?.body ?? nobody())
    expect(Buffer.concat(chunks).equals(bytes.subarray(1000, 501_000))).toBe(true)
  })

  test('of which an endpoint sends less than was asked for is asked for again', async () => {
    let gets = 0
    s3.interfere(isGet, (request, exchange) => {
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

  test('and breaks off before anybody reads it does the process no harm', async () => {
    const { promise: isCut, resolve } = Promise.withResolvers<void>()
    s3.interfere(
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

  test('and stalls is asked for again', async () => {
    store = place.open(HASTY)
    s3.interfere(
      isGet,
      afterBytes(300_000, () => {}),
      1,
    )
    await expectBytes(store, 'object', bytes)
  })

  test.each([
    ['breaks off', ({ drop }: Exchange) => drop()],
    ['stalls', () => {}],
  ])('and always %s before its first byte ends in an error, not in an end', async (_, then) => {
    store = place.open({ ...THREE_TRIES, idleMs: 300 })
    s3.interfere(isGet, (request, exchange) => {
      const from = /^bytes=(\d+)-/.exec(request.headers.range ?? '')?.[1] ?? '0'
      afterBytes(from === '0' ? 1000 : 0, then)(request, exchange)
      exchange.response.flushHeaders()
    })
    const content = await store.get('object')
    await expectCode(collectAll(content?.body ?? nobody()), 'object_store_unavailable')
    expect(s3.requestsOf(isGet).length).toBe(3)
  })

  test('and trickles ends at the deadline of the call', async () => {
    store = place.open({ ...THREE_TRIES, deadlineMs: 400, slowestBytesPerSecond: 1e9 })
    s3.interfere(isGet, (_, { carryOut, response }) => {
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
    expect(s3.requestsOf(isGet).length).toBe(1)
  })

  test('and has no length is refused: its early end would look like its end', async () => {
    s3.interfere(isGet, (_, { carryOut, response }) => {
      const { body, headers: { etag = '' } = {} } = carryOut()
      response.socket?.end(
        `HTTP/1.1 200 OK\r\netag: ${etag}\r\nconnection: close\r\n\r\n${body?.subarray(0, 1000).toString('latin1')}`,
      )
    })
    await expectCode(store.get('object'), 'object_store_error')
  })

  test('and is of another object when it is asked for again is refused', async () => {
    s3.interfere(
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

  test('and is gone when it is asked for again is refused', async () => {
    s3.interfere(
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

  test('from an endpoint that ignores ranges is refused', async () => {
    s3.interfere(isGet, (_, { send }) => send({ status: 200, headers: { etag: '"x"' }, body: bytes }))
    await expectCode(store.get('object', { range: { offset: 10, length: 10 } }), 'object_store_error')
    // From the beginning the answer holds what was asked for, and more.
    const content = await store.get('object', { range: { offset: 0, length: 10 } })
    expect(Buffer.concat(await collectAll(content?.body ?? nobody()))).toEqual(bytes.subarray(0, 10))
  })

  async function* nobody(): AsyncGenerator<Uint8Array> {}
})

describe('A list', () => {
  test('goes over as many pages as there are', async () => {
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

  test('of uploads goes on after one that can not be ended, and says so in the end', async () => {
    for (const key of ['k/1', 'k/2', 'k/3', 'theirs']) {
      s3.uploads.set(key, { key, metadata: {}, parts: new Map(), begun: new Date(0) })
    }
    s3.interfere(
      ({ method, key }) => method === 'DELETE' && key === 'k/1',
      (_, { send }) => send(failure(403, 'AccessDenied')),
    )
    const owns = (key: string) => key !== 'theirs'
    await expectCode(store.sweepUploads('', 1, { owns }), 'object_store_error')
    expect([...s3.uploads.keys()]).toEqual(['k/1', 'theirs'])
  })

  test('leaves out what is no object of ours', async () => {
    for (const key of ['a', 'folder/', 'a//b', '.cellstore/x']) {
      s3.objects.set(key, { bytes: small, metadata: {}, etag: '"x"' })
    }
    expect(await keysOf(store, '')).toEqual(['a'])
  })

  test.each([
    [
      'gives the same page for ever',
      '<IsTruncated>true</IsTruncated><NextContinuationToken>t</NextContinuationToken>',
    ],
    ['does not say how it goes on', '<IsTruncated>true</IsTruncated>'],
  ])('that %s is an error', async (_, end) => {
    s3.interfere(all, (_request, { send }) =>
      send({ status: 200, body: Buffer.from(`<ListBucketResult>${end}</ListBucketResult>`) }),
    )
    await expectCode(keysOf(store, ''), 'object_store_error')
  })

  test('that goes back is an error, since keys could be missing', async () => {
    let page = 0
    s3.interfere(all, (_, { send }) => {
      const key = ['b', 'a'][page++]
      const content = `<Contents><Key>${key}</Key><Size>1</Size></Contents>`
      const next =
        page === 1 ? '<IsTruncated>true</IsTruncated><NextContinuationToken>t</NextContinuationToken>' : ''
      send({ status: 200, body: Buffer.from(`<ListBucketResult>${content}${next}</ListBucketResult>`) })
    })
    await expectCode(keysOf(store, ''), 'object_store_error')
  })
})
