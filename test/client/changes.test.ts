import { expect, test } from 'vitest'
import { type ChangesOptions, type ClientOptions, createClient } from '../../src/client/index.ts'

/** What was asked for, and how often the client has waited before it asked again. */
function client(options: Partial<ClientOptions>, answer: () => Response | Promise<Response> = eventStream) {
  const seen = { requests: 0, waits: 0 }
  const cells = createClient({
    baseUrl: 'http://cells.test',
    async fetch() {
      seen.requests++
      return await answer()
    },
    async wait() {
      if (++seen.waits > 2) throw new Error('waited three times')
    },
    ...options,
  })
  const first = (args: object = { id: 'x' }, given?: object) =>
    cells.changes(args as { id: string }, given as ChangesOptions).next()
  return { seen, first }
}

const EVENT = 'id: 7\nevent: commit\ndata: {"keys":["k"],"tables":[]}\n\n'
function eventStream() {
  return new Response(EVENT, { headers: { 'content-type': 'text/event-stream' } })
}
function page(status: number, text = '<html>') {
  return () => new Response(text, { status, headers: { 'content-type': 'text/html' } })
}

test.each([
  ['an unknown argument', { id: 'x', prefx: 'u' }, {}, 'prefx is not known: did you mean prefix'],
  ['no id', {}, {}, 'id must be a string, not empty.'],
  ['tables that are no list', { id: 'x', tables: 'users' }, {}, 'tables must be a list of names'],
  ['a lastEventId that is no string', { id: 'x' }, { lastEventId: 7 }, 'options.lastEventId must be a text.'],
  ['a lastEventId with a new line', { id: 'x' }, { lastEventId: '7\n8' }, /header value/],
  ['a header that is none', { id: 'x' }, { headers: { 'a b': '1' } }, /header name/],
])('%s is a mistake, before it is sent', async (_, args, given, message) => {
  const { first, seen } = client({})
  const error = await first(args, given).catch((error: unknown) => error)
  expect(error).toBeInstanceOf(TypeError)
  expect(error).toHaveProperty('message', expect.stringMatching(message))
  expect(seen).toEqual({ requests: 0, waits: 0 })
})

test.each<[string, Partial<ClientOptions>, RegExp]>([
  ['a key with a new line', { apiKey: 'ck\nx' }, /header value/],
])('%s is a mistake, before it is sent', async (_, options, message) => {
  const { first, seen } = client(options)
  const error = await first().catch((error: unknown) => error)
  expect(error).toBeInstanceOf(TypeError)
  expect(error).toHaveProperty('message', expect.stringMatching(message))
  expect(seen).toEqual({ requests: 0, waits: 0 })
})

test('a relative URL is for the fetch of the caller to resolve', async () => {
  const { first } = client({ baseUrl: '/api' })
  expect((await first()).value).toMatchObject({ type: 'commit', id: '7' })
})

test.each([
  ['404 without a problem document', page(404), 'answered 404 without a problem document: <html>'],
  ['200 that is no stream of events', page(200), 'answered 200 without a stream of events'],
  ['204', () => new Response(null, { status: 204 }), 'answered 204 without a stream of events'],
])('%s ends the watch', async (_, answer, message) => {
  const { first, seen } = client({}, answer)
  const error = await first().catch((error: unknown) => error)
  expect(error).toBeInstanceOf(TypeError)
  expect(error).toHaveProperty('message', expect.stringContaining(message))
  expect(seen).toEqual({ requests: 1, waits: 0 })
})

test.each([
  ['nobody answers', () => Promise.reject(new TypeError('fetch failed'))],
  ['a proxy does not reach the server', page(502)],
  ['a proxy has given up waiting', page(504)],
])('while %s, the stream is asked for again', async (_, answer) => {
  const { first, seen } = client({}, () => (seen.requests <= 2 ? answer() : eventStream()))
  expect((await first()).value).toMatchObject({ type: 'commit', id: '7' })
  expect(seen).toEqual({ requests: 3, waits: 2 })
})

test('a connection that breaks off is made again, after the last event', async () => {
  const sent: (string | null)[] = []
  const cells = createClient({
    baseUrl: 'http://cells.test',
    wait: async () => {},
    async fetch(_, init) {
      sent.push(new Headers(init.headers).get('last-event-id'))
      let reads = 0
      const body = new ReadableStream({
        pull(controller) {
          if (reads++ === 0) controller.enqueue(new TextEncoder().encode(EVENT))
          else controller.error(new TypeError('terminated'))
        },
      })
      return new Response(body, { headers: { 'content-type': 'text/event-stream; charset=utf-8' } })
    },
  })
  const changes = cells.changes({ id: 'x' })
  await changes.next()
  await changes.next()
  expect(sent).toEqual([null, '7'])
})
