import { expect, test } from 'vitest'
import { CellError } from '../../src/errors.ts'
import { asTenantsSee } from '../../src/http/core/problem.ts'
import { ChangeEvents, HEARTBEAT_MS } from '../../src/http/routes/change-events.ts'
import { openTestCell } from '../support/open-test-store.ts'

test('a heartbeat has the newest id, also of commits that were not for its reader, and is no event', async () => {
  const { cell, clock } = await openTestCell()
  let closed = 0
  const changes = cell.watch({ prefix: 'none' })
  const events = new ChangeEvents({ changes, clock, show: asTenantsSee, closed: () => void closed++ })
  const text = events[Symbol.asyncIterator]()
  expect((await text.next()).value).toBe('retry: 1000\n\n')
  expect((await text.next()).value).toMatch(/^event: reset\nid: \w+-0\ndata: {"reason":"start"}\n\n$/)
  const waiting = text.next()
  cell.kv.put('other', '1')
  // The reader is woken, and finds nothing for it.
  await new Promise((resolve) => setImmediate(resolve))
  clock.advance(HEARTBEAT_MS)
  expect((await waiting).value).toMatch(/^:\nid: \w+-1\n\n$/)
  await text.return()
  expect(closed).toBe(1)
})

test('nothing is sent once the key has expired', async () => {
  const { cell, clock } = await openTestCell()
  let isExpired = false
  const permit = {
    check: () => {
      if (isExpired) throw new CellError('unauthorized', 'expired')
    },
  }
  const events = new ChangeEvents({
    changes: cell.watch(),
    clock,
    permit,
    show: asTenantsSee,
    closed: () => {},
  })
  const text = events[Symbol.asyncIterator]()
  await text.next()
  await text.next()
  const waiting = text.next()
  isExpired = true
  cell.kv.put('a', '1')
  expect((await waiting).value).toBe('event: end\ndata: {"code":"unauthorized","detail":"expired"}\n\n')
  expect(await text.next()).toMatchObject({ done: true })
})

test('a stream on which nothing happens ends with its key', async () => {
  const { cell, clock } = await openTestCell()
  const endsAt = clock.now() + 5_000
  const permit = {
    endsAt,
    check: () => {
      if (clock.now() >= endsAt) throw new CellError('unauthorized', 'expired')
    },
  }
  const changes = cell.watch()
  const events = new ChangeEvents({ changes, clock, permit, show: asTenantsSee, closed: () => {} })
  const text = events[Symbol.asyncIterator]()
  await text.next()
  await text.next()
  let sent: unknown
  const waiting = text.next().then(({ value }) => {
    sent = value
  })
  clock.advance(4_999)
  await new Promise((resolve) => setImmediate(resolve))
  expect(sent).toBeUndefined()
  clock.advance(1)
  await waiting
  expect(sent).toBe('event: end\ndata: {"code":"unauthorized","detail":"expired"}\n\n')
})
