import { expect, test } from 'vitest'
import { EventReader } from '../../src/client/changes.ts'

/** What the reader makes of a body that comes in these pieces. */
async function read(...pieces: readonly (string | Uint8Array)[]) {
  const bytes = pieces.map((piece) => (typeof piece === 'string' ? new TextEncoder().encode(piece) : piece))
  const reader = new EventReader()
  const events = []
  for await (const event of reader.read(ReadableStream.from(bytes))) events.push(event)
  return { events, lastEventId: reader.lastEventId, retryMs: reader.retryMs }
}

const RESET = { type: 'reset', id: '7', reason: 'a long one' }

test.each<[string, readonly string[]]>([
  ['in one line', ['event: reset\nid: 7\ndata: {"reason":"a long one"}\n\n']],
  ['in several lines', ['event: reset\nid: 7\ndata: {"reason":\ndata: "a long one"}\n\n']],
  [
    'in lines that end as in HTTP',
    ['event: reset\r\nid: 7\r\ndata: {"reason":\r\ndata: "a long one"}\r\n\r\n'],
  ],
  ['in pieces', [...'event: reset\r\nid: 7\r\ndata: {"reason":\r\ndata: "a long one"}\r\n\r\n']],
  ['without blanks', ['event:reset\nid:7\ndata:{"reason":"a long one"}\n\n']],
])('an event whose data comes %s is read whole', async (_, pieces) => {
  expect((await read(...pieces)).events).toEqual([RESET])
})

test('a character that is cut by the end of a piece too', async () => {
  const bytes = new TextEncoder().encode('event: reset\nid: 7\ndata: {"reason":"é"}\n\n')
  const { events } = await read(...Array.from(bytes, (byte) => Uint8Array.of(byte)))
  expect(events).toEqual([{ ...RESET, reason: 'é' }])
})

test('an id without an event is kept: the client comes back after commits that were not for it', async () => {
  expect(
    await read('retry: 250\n\n', 'event: reset\nid: 7\ndata: {"reason":"a long one"}\n\n', ': 9\nid: 9\n\n'),
  ).toEqual({
    events: [RESET],
    lastEventId: '9',
    retryMs: 250,
  })
})
