import { describe, expect, onTestFinished, test } from 'vitest'
import { channels } from '../../src/base/async/channels.ts'
import { ObservedNode } from '../support/observed-node.ts'

type ChannelName = keyof typeof channels
interface Event {
  channel: ChannelName
  phase: 'start' | 'end' | 'error'
  message: Record<string, unknown>
}

/** Subscribes to all channels for the rest of the test. */
function watched(): Event[] {
  const events: Event[] = []
  for (const [name, channel] of Object.entries(channels)) {
    const keep = (phase: Event['phase']) => (message: object) =>
      void events.push({ channel: name as ChannelName, phase, message: { ...message } })
    const subscribers = { start: keep('start'), asyncEnd: keep('end'), error: keep('error') } as never
    channel.subscribe(subscribers)
    onTestFinished(() => channel.unsubscribe(subscribers))
  }
  return events
}

describe.each([
  ['a node that runs its cells itself', 0],
  ['a node with workers', 1],
] as const)('%s', (_, workers) => {
  test('tells subscribers of requests, operations, backups and restores', async () => {
    const node = await ObservedNode.start(workers)
    const cell = await node.newCell()
    const events = watched()
    const headers = { 'x-request-id': 'mine' }
    const post = (path: string, body: object) =>
      node.request('POST', `/v1/databases/${cell}${path}`, body, headers)
    await post('/sql', { sql: 'CREATE TABLE t (a)' })
    await post('/sql', { sql: 'SELECT * FROM nowhere' })
    await post('/backup', {})
    await post('/restore', {})

    const of = (channel: ChannelName, phase: Event['phase']) =>
      events
        .filter((event) => event.channel === channel && event.phase === phase)
        .map(({ message }) => message)
    const route = '/v1/databases/{id}/sql'
    expect(of('request', 'start')).toHaveLength(4)
    expect(of('request', 'start')[0]).toEqual({ requestId: 'mine', method: 'POST', route })
    const accountId = expect.any(String)
    expect(of('request', 'end').slice(0, 2)).toEqual([
      { requestId: 'mine', method: 'POST', route, status: 200, accountId, result: undefined },
      { requestId: 'mine', method: 'POST', route, status: 400, accountId, result: undefined },
    ])
    const operation = { cellId: cell, op: 'sql', requestId: 'mine' }
    expect(of('operation', 'start')).toEqual([operation, operation])
    expect(of('operation', 'error')).toEqual([{ ...operation, error: { code: 'sql_error' } }])
    const backup = { cellId: cell, kind: 'snapshot', origin: 'tenant', requestId: 'mine' }
    expect(of('backup', 'start')).toEqual([backup])
    expect(of('backup', 'end')).toEqual([{ ...backup, result: undefined }])
    const restore = { cellId: cell, version: undefined, recovers: false, requestId: 'mine' }
    expect(of('restore', 'start')).toEqual([restore])
    expect(of('restore', 'end')).toEqual([{ ...restore, result: undefined }])
  })
})
