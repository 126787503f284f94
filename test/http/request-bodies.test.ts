import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { ROUTES } from '../../src/http/routes/routes.ts'
import { type Ask, Bench, type Reply } from '../support/http/bench.ts'
import { TRANSPORTS_AND_NODES } from '../support/http/transports.ts'
import { checkEveryReply, checkProblem } from './rows/row.ts'

const BODY_BYTES_MAX = 2_097_152

/** Not the deletion of the cell that the others use. */
const withBody = ROUTES.filter(([method, , { takesBody }]) => takesBody && method !== 'DELETE').map(
  ([method, path]) => ({
    route: `${method} ${path}`,
    method,
    path: path.replace('{id}', '{cell}').replace('{key}', 'k'),
  }),
)

describe.each(TRANSPORTS_AND_NODES)('through %s', (_name, transport) => {
  let bench: Bench
  beforeAll(async () => {
    bench = await Bench.open(transport)
  })
  afterAll(() => bench.close())

  async function send(ask: Ask): Promise<Reply> {
    const reply = await bench.send(ask)
    checkEveryReply(reply, bench, ask)
    return reply
  }

  describe.each(withBody)('the body of $route', ({ method, path }) => {
    test.each([
      'text/plain',
      'application/x-www-form-urlencoded',
      'application/jsonp',
      'text/json',
      'application/json; charset=latin1',
      'application/json; x=y; charset="utf-16"',
      'text/plain; application/json',
      '',
    ])('is refused as %j', async (type) => {
      const reply = await send({ method, path, raw: '{}', headers: { 'content-type': type } })
      checkProblem(reply, 415, { code: 'unsupported_media_type' })
    })

    test.each([
      'application/json',
      'Application/JSON',
      'application/json; charset=utf-8',
      'application/json;charset="UTF-8"',
      'application/vnd.api+json',
      'application/json; profile="x"; charset=utf-8',
      'application/json;',
    ])('is taken as %j', async (type) => {
      const { status } = await send({ method, path, raw: '{}', headers: { 'content-type': type } })
      expect(status).not.toBe(415)
    })

    test.each(['gzip', 'BR', 'identity, x-none'])(
      'is refused with Content-Encoding %s, by name',
      async (encoding) => {
        const reply = await send({ method, path, raw: '{}', headers: { 'content-encoding': encoding } })
        checkProblem(reply, 415, {
          code: 'unsupported_media_type',
          detail: expect.stringContaining(`Content-Encoding: ${encoding}`),
        })
      },
    )

    test.each(['identity', 'Identity', ''])('is taken with Content-Encoding %j', async (encoding) => {
      const reply = await send({ method, path, raw: '{}', headers: { 'content-encoding': encoding } })
      expect(reply.status).not.toBe(415)
    })

    test.each([
      '{',
      "{'a':1}",
      '{"a":1,}',
      '{} {}',
      'undefined',
      '[1',
      '"\u0001"',
      new Uint8Array([0x22, 0xff, 0x22]),
      `${'['.repeat(9_000)}1234567890123456`,
    ])('is refused as %j, which is no JSON', async (raw) => {
      if (raw === '') return
      checkProblem(await send({ method, path, raw }), 400, { code: 'invalid_json' })
    })

    test.each(['null', '[]', '"x"', '1', 'true', '12345678901234567890'])(
      'is refused as %s, which is no object',
      async (raw) => {
        checkProblem(await send({ method, path, raw }), 400, { code: 'invalid_request' })
      },
    )

    test('may begin with a byte order mark', async () => {
      const plain = await send({ method, path, raw: '{"version":1,"name":1}' })
      const marked = await send({ method, path, raw: '\ufeff{"version":1,"name":1}' })
      expect(marked.status).toBe(plain.status)
    })

    test('may be 2 MiB long, and not a byte longer', async () => {
      const padding = (bytes: number) => `{"padding":"${'x'.repeat(bytes - 14)}"}`
      expect((await send({ method, path, raw: padding(BODY_BYTES_MAX) })).status).not.toBe(413)
      const reply = await send({ method, path, raw: padding(BODY_BYTES_MAX + 1) })
      checkProblem(reply, 413, { code: 'body_too_large', limit: BODY_BYTES_MAX })
    })

    test('is judged by its type before its length, and by its length before its content', async () => {
      const long = 'x'.repeat(BODY_BYTES_MAX + 1)
      const typed = await send({ method, path, raw: long, headers: { 'content-type': 'text/plain' } })
      checkProblem(typed, 415, { code: 'unsupported_media_type' })
      checkProblem(await send({ method, path, raw: long }), 413, {
        code: 'body_too_large',
        limit: BODY_BYTES_MAX,
      })
    })
  })
})
