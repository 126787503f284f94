import http from 'node:http'
import net, { type AddressInfo } from 'node:net'
import { beforeEach, describe, expect, onTestFinished, test } from 'vitest'
import { CellError } from '../../../src/errors.ts'
import { DEFAULT_HTTP_LIMITS } from '../../../src/http/handler-options.ts'
import type { NodeServerOptions } from '../../../src/http/server/node-server.ts'
import { InProcessService } from '../../../src/service/in-process-service.ts'
import { askNode, type Got, type Sent } from '../../support/http/ask-node.ts'
import { Bench } from '../../support/http/bench.ts'
import { ScriptedPeers } from '../../support/http/scripted-peers.ts'
import { viaFetch } from '../../support/http/transports.ts'
import { until } from '../../support/until.ts'

const bench = Bench.perTest(viaFetch)
let owner: ScriptedPeers
let front: ScriptedPeers
let port: number

/** Two nodes with one catalog: the first has all cells, the second is asked. */
beforeEach(async () => {
  bench.newCell()
  owner = new ScriptedPeers('6a1f4d1e-0000-4000-8000-00000000000a')
  front = new ScriptedPeers('6a1f4d1e-0000-4000-8000-00000000000b')
  await serve(owner)
  port = await serve(front)
  front.give(owner.self)
})

async function serve(cluster: ScriptedPeers, options: NodeServerOptions = {}): Promise<number> {
  const { port } = await bench.listen({ ...options, cluster })
  cluster.self.address = `http://127.0.0.1:${port}`
  return port
}

function ask(path: string, { at = port, headers, ...sent }: Sent & { at?: number } = {}): Promise<Got> {
  return askNode(at, bench.fill(path), { ...sent, headers: { 'x-api-key': bench.key, ...headers } })
}

/** A stream of changes that has begun. */
async function openChanges(at: number): Promise<{ request: http.ClientRequest; seen: { text: string } }> {
  const options = { host: '127.0.0.1', port: at, path: bench.fill('/v1/databases/{cell}/changes') }
  const request = http.get({ ...options, headers: { 'x-api-key': bench.key }, agent: false })
  const seen = { text: '' }
  request.on('error', () => {})
  request.on('response', (response) => {
    response.on('error', () => {})
    response.setEncoding('utf8').on('data', (piece) => {
      seen.text += piece
    })
  })
  await until(() => seen.text.includes('retry:'), 'the stream begins')
  return { request, seen }
}

const KEY = '/v1/databases/{cell}/kv/k'
const put = (value: string, at?: number) =>
  ask(KEY, { method: 'PUT', body: JSON.stringify({ value }), ...(at === undefined ? {} : { at }) })

/** In place of the owner: does as it is told with each connection, and counts them. */
async function fakeOwner(serve: (socket: net.Socket) => void): Promise<{ requests: number }> {
  const seen = { requests: 0 }
  const sockets = new Set<net.Socket>()
  const server = net.createServer((socket) => {
    sockets.add(socket)
    socket.on('error', () => {})
    socket.once('data', () => {
      seen.requests++
      serve(socket)
    })
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  onTestFinished(() => {
    for (const socket of sockets) socket.destroy()
    server.close()
  })
  const { port } = server.address() as AddressInfo
  front.give({ nodeId: owner.self.nodeId, address: `http://127.0.0.1:${port}` })
  return seen
}

/** Has the nodes see from now on that time passes in which nothing comes. */
function silence(): void {
  const passing = setInterval(() => bench.clock.pass(60_000), 100)
  onTestFinished(() => clearInterval(passing))
}

describe('a request at a node that does not have the cell', () => {
  test('is answered by the one that has it, which the answer names', async () => {
    expect((await put('Ann')).status).toBe(200)
    const got = await ask(KEY)
    expect(got.json).toMatchObject({ value: 'Ann' })
    expect(got.headers['cellstore-owner']).toBe(owner.self.address)
    expect((await ask(KEY, { at: await serve(owner) })).headers).not.toHaveProperty('cellstore-owner')
  })

  test('keeps its request id, and is described with the node that has the cell', async () => {
    const got = await ask('/v1/databases/{cell}', { headers: { 'x-request-id': 'my-id' } })
    expect(got.headers['x-request-id']).toBe('my-id')
    expect(got.json).toMatchObject({ node: { id: owner.self.nodeId, address: owner.self.address } })
  })

  test('reaches it by the name of the cell, too', async () => {
    const made = await ask('/v1/databases', { method: 'POST', body: '{"name":"acme"}' })
    const body = JSON.stringify({ baton: null, requests: [{ type: 'execute', stmt: { sql: 'SELECT 7' } }] })
    const got = await ask('/v1/databases/acme/v3/pipeline', { method: 'POST', body })
    expect(got).toMatchObject({ status: 200, json: { results: [{ type: 'ok' }] } })
    expect(got.headers['cellstore-owner']).toBe(owner.self.address)
    expect(made.status).toBe(201)
  })

  test('with a key that nobody knows is refused where it is asked, and asked for once in PostgreSQL', async () => {
    expect((await ask(KEY, { headers: { 'x-api-key': 'x' } })).json).toMatchObject({ code: 'unauthorized' })
    expect([front.catchUps, owner.catchUps]).toEqual([1, 0])
  })

  test('with a large body and a large answer takes both as they come', async () => {
    const value = 'v'.repeat(800_000)
    expect((await put(value)).status).toBe(200)
    const file = await ask('/v1/databases/{cell}/export')
    expect(file.text.startsWith('SQLite format 3')).toBe(true)
    expect((await ask(KEY)).json['value']).toBe(value)
  })

  test('streams changes until its client leaves, which the other node sees', async () => {
    const service = new InProcessService(bench.store, { restoreWaitMs: 1_000, bounds: DEFAULT_HTTP_LIMITS })
    const streams = new Set<unknown>()
    const watch = service.watch.bind(service)
    service.watch = async (...args) => {
      const changes = await watch(...args)
      const end = changes.return.bind(changes)
      streams.add(changes)
      changes.return = (...given) => {
        streams.delete(changes)
        return end(...given)
      }
      return changes
    }
    await serve(owner, { service })
    const { request, seen } = await openChanges(port)
    expect(streams.size).toBe(1)
    bench.store.openCell(bench.cell).kv.put('k', 'Ann')
    await until(() => seen.text.includes('"keys":["k"]'), 'the change comes')
    request.destroy()
    await until(() => streams.size === 0, 'the node that has the cell sees that the client has left')
  })
})

describe('the other node', () => {
  test('that dies before it has a request: nothing was done, and the client may ask again', async () => {
    front.give({ nodeId: owner.self.nodeId, address: 'http://127.0.0.1:1' })
    const got = await put('Ann')
    expect(got).toMatchObject({ status: 503, json: { code: 'cell_moving' } })
    expect(got.headers['retry-after']).toBe('1')
  })

  test('that dies with a change on its way: nobody knows, and it is not sent again', async () => {
    const seen = await fakeOwner((socket) => socket.destroy())
    expect(await put('Ann')).toMatchObject({ status: 503, json: { code: 'not_serving' } })
    expect(seen.requests).toBe(1)
  })

  test('that dies with a read on its way is asked once more', async () => {
    const seen = await fakeOwner((socket) => socket.destroy())
    expect(await ask(KEY)).toMatchObject({ status: 503, json: { code: 'not_serving' } })
    expect(seen.requests).toBe(2)
  })

  test('that dies in the middle of a short answer: the client is told so', async () => {
    await fakeOwner((socket) => {
      socket.write('HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 99\r\n\r\n{"va')
      setImmediate(() => socket.destroy())
    })
    expect(await put('Ann')).toMatchObject({ status: 503, json: { code: 'not_serving' } })
  })

  test('that dies in the middle of a long answer: the client sees that it is not whole', async () => {
    await fakeOwner((socket) => {
      socket.write(
        'HTTP/1.1 200 OK\r\nContent-Type: application/vnd.sqlite3\r\nContent-Length: 999999\r\n\r\nSQL',
      )
      setTimeout(() => socket.destroy(), 50)
    })
    await expect(ask('/v1/databases/{cell}/export')).rejects.toThrow(/aborted|hang up|ECONNRESET/)
  })

  test('that is stuck holds up its clients for no longer than its silence may last (invariant 13)', async () => {
    const seen = await fakeOwner(() => {})
    const answer = put('Ann')
    await until(() => seen.requests === 1, 'the node has the request')
    silence()
    expect(await answer).toMatchObject({ status: 503, json: { code: 'not_serving' } })
  })

  test('that is stuck in the middle of an answer holds it up no longer', async () => {
    await fakeOwner((socket) => {
      const head = 'HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n'
      socket.write(`${head}a\r\nretry: 1\n\n\r\n`)
    })
    silence()
    await expect(ask('/v1/databases/{cell}/changes')).rejects.toThrow(/aborted|hang up|ECONNRESET/)
  })

  test('sees when a client leaves before it was answered', async () => {
    let isGone = false
    const seen = await fakeOwner((socket) => socket.on('close', () => (isGone = true)))
    const request = http.get({
      host: '127.0.0.1',
      port,
      path: bench.fill(KEY),
      headers: { 'x-api-key': bench.key },
      agent: false,
    })
    request.on('error', () => {})
    await until(() => seen.requests === 1, 'the node has the request')
    request.destroy()
    await until(() => isGone, 'the node sees that the client has left')
  })
})

describe('a cell that moves', () => {
  test('is waited for, and its request goes to whoever gets it', async () => {
    front.give('moving')
    const answer = put('Ann')
    setTimeout(() => front.give(owner.self), 50)
    expect((await answer).status).toBe(200)
  })

  test('is waited for no longer than a second: nothing was done', async () => {
    front.give('moving')
    const got = await put('Ann')
    expect(got).toMatchObject({ status: 503, json: { code: 'cell_moving' } })
    expect((await ask(KEY, { at: await serve(owner) })).status).toBe(404)
  })

  test('to this node while it is asked elsewhere is served here', async () => {
    owner.give({ nodeId: front.self.nodeId, address: front.self.address })
    front.news = () => front.give('here')
    expect((await put('Ann')).status).toBe(200)
    expect(front.catchUps).toBe(1)
  })

  test.each([100, 300_000])(
    'goes on with its whole body of %i bytes where the first node refuses it',
    async (length) => {
      const third = new ScriptedPeers('6a1f4d1e-0000-4000-8000-00000000000c')
      await serve(third)
      owner.give(third.self)
      front.news = () => front.give(third.self)
      const value = 'v'.repeat(length)
      const got = await put(value)
      expect(got.status).toBe(200)
      expect(got.headers['cellstore-owner']).toBe(third.self.address)
      expect((await ask(KEY)).json['value']).toBe(value)
    },
  )

  test('is followed if the node that gave it away knows that before PostgreSQL does', async () => {
    const third = new ScriptedPeers('6a1f4d1e-0000-4000-8000-00000000000c')
    await serve(third)
    owner.give({ nodeId: third.self.nodeId, address: third.self.address })
    owner.assignment = 99
    // The first looks at PostgreSQL bring nothing.
    const late = () => {
      front.assignment = 98
      front.give(third.self)
    }
    front.news = () => {
      front.news = () => {
        front.news = late
      }
    }
    const got = await put('Ann')
    expect(got.status).toBe(200)
    expect(got.headers['cellstore-owner']).toBe(third.self.address)
  })

  test('twice while it is asked for is followed twice', async () => {
    const [third, fourth] = [
      new ScriptedPeers('6a1f4d1e-0000-4000-8000-00000000000c'),
      new ScriptedPeers('6a1f4d1e-0000-4000-8000-00000000000d'),
    ]
    await serve(third)
    await serve(fourth)
    for (const past of [owner, third]) past.give(fourth.self)
    front.news = () => {
      front.give(third.self)
      front.news = () => front.give(fourth.self)
    }
    const got = await put('Ann')
    expect(got.status).toBe(200)
    expect(got.headers['cellstore-owner']).toBe(fourth.self.address)
  })

  test('while an operation waits to begin: the operation is carried out by the new owner', async () => {
    const service = new InProcessService(bench.store, { restoreWaitMs: 1_000, bounds: DEFAULT_HTTP_LIMITS })
    const execute = service.execute.bind(service)
    let refuses = true
    service.execute = (...args) => {
      if (!refuses) return execute(...args)
      refuses = false
      mover.give(owner.self)
      return Promise.reject(new CellError('cell_moving', 'The cell is being handed over.'))
    }
    const mover = new ScriptedPeers('6a1f4d1e-0000-4000-8000-00000000000d')
    const at = await serve(mover, { service })
    const got = await put('Ann', at)
    expect(got.status).toBe(200)
    expect(got.headers['cellstore-owner']).toBe(owner.self.address)
  })

  test('between two nodes that each take the other for the owner: one hop, and no loop', async () => {
    owner.give(front.self)
    const before = owner.catchUps + front.catchUps
    expect(await put('Ann')).toMatchObject({ status: 503, json: { code: 'cell_moving' } })
    expect(owner.catchUps + front.catchUps - before).toBeLessThan(5)
  })

  test('a node that does not know yet that it is the owner asks before it refuses', async () => {
    owner.give('moving')
    owner.news = () => owner.give('here')
    front.assignment = 99
    expect((await put('Ann')).status).toBe(200)
  })
})

describe('a mark', () => {
  test.each(['1 forged', 'x', '', '99 '])(
    'that no node has made (%j) is no way in: 421, and nothing runs',
    async (mark) => {
      const headers = { 'cellstore-forwarded': mark, 'content-type': 'application/json' }
      for (const at of [port, await serve(owner)])
        expect(await ask(KEY, { method: 'PUT', headers, body: '{"value":"x"}', at })).toMatchObject({
          status: 421,
        })
      expect((await ask(KEY)).status).toBe(404)
    },
  )

  test('of a node of another cluster is none', async () => {
    const stranger = new ScriptedPeers('6a1f4d1e-0000-4000-8000-00000000000e', 'another secret')
    const at = await serve(stranger)
    stranger.give(owner.self)
    expect(await put('Ann', at)).toMatchObject({ status: 503, json: { code: 'cell_moving' } })
  })

  test('does not come through a node: what a client writes in our headers stays there', async () => {
    const headers = { 'cellstore-cell': 'x', connection: 'keep-alive, x-mine', 'x-mine': '1' }
    const seen: string[] = []
    await fakeOwner(() => {})
    const server = http.createServer((request, response) => {
      seen.push(...Object.keys(request.headers))
      response.end('{}')
    })
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
    onTestFinished(() => void server.close())
    front.give({
      nodeId: owner.self.nodeId,
      address: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    })
    await ask(KEY, { headers })
    expect(seen).toContain('cellstore-forwarded')
    expect(seen).not.toContain('cellstore-cell')
    expect(seen).not.toContain('x-mine')
  })
})

describe('a node for which nobody vouches (C4)', () => {
  test.each([
    ['a read', 'GET', KEY],
    ['a change', 'PUT', KEY],
    ['a list', 'GET', '/v1/databases'],
    ['an export', 'GET', '/v1/databases/{cell}/export'],
    ['the changes of a cell', 'GET', '/v1/databases/{cell}/changes'],
    ['a creation', 'POST', '/v1/databases'],
    ['no such route', 'GET', '/v1/nothing'],
  ])('answers nothing: %s', async (_what, method, path) => {
    const at = await serve(owner)
    owner.hasLease = false
    const body = method === 'PUT' ? '{"value":"x"}' : undefined
    const got = await ask(path, { method, at, ...(body === undefined ? {} : { body }) })
    expect(got).toMatchObject({ status: 503, json: { code: 'not_serving' } })
    expect(got.headers).toHaveProperty('retry-after')
  })

  test('does not say either that a key is not valid, or that a cell is not there', async () => {
    const at = await serve(owner)
    owner.hasLease = false
    expect((await ask(KEY, { at, headers: { 'x-api-key': 'x' } })).json).toMatchObject({
      code: 'not_serving',
    })
    const absent = '/v1/databases/33f6c2a5-7c5e-4b0a-9f39-1c1f5a0b7e11'
    expect((await ask(absent, { at })).json).toMatchObject({ code: 'not_serving' })
  })

  test('sends on what others answer, and is alive', async () => {
    front.hasLease = false
    expect((await put('Ann')).status).toBe(200)
    expect((await ask('/healthz')).status).toBe(200)
  })

  test('sends no more of what it has begun', async () => {
    const at = await serve(owner)
    const { seen } = await openChanges(at)
    owner.hasLease = false
    bench.store.openCell(bench.cell).kv.put('k', 'secret')
    await until(() => seen.text.includes('event: end'), 'the stream ends')
    expect(seen.text).toContain('not_serving')
    expect(seen.text).not.toContain('"keys"')
  })
})

test('a list shows what the owners know of the cells, and waits for none that is away', async () => {
  await ask('/v1/databases/{cell}/backup', { method: 'POST', body: '{}' })
  const listed = async () => {
    const { databases } = (await ask('/v1/databases')).json as { databases: { id: string }[] }
    return databases.find(({ id }) => id === bench.cell)
  }
  expect(await listed()).toMatchObject({ size_bytes: expect.any(Number), status: 'ok' })
  const server = http.createServer((_request, response) => {
    response.end(JSON.stringify({ [bench.cell]: { size_bytes: 12_345, status: 'quarantined' } }))
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  onTestFinished(() => void server.close())
  const { port: other } = server.address() as AddressInfo
  front.give({ nodeId: owner.self.nodeId, address: `http://127.0.0.1:${other}` })
  expect(await listed()).toMatchObject({ size_bytes: 12_345, status: 'quarantined' })
  front.give({ nodeId: owner.self.nodeId, address: 'http://127.0.0.1:1' })
  expect(await listed()).toBeDefined()
})

describe('a new cell', () => {
  test('is made by a node that has ranges', async () => {
    const got = await ask('/v1/databases', { method: 'POST', body: '{"name":"acme"}' })
    expect(got.status).toBe(201)
    expect(got.headers['cellstore-owner']).toBe(owner.self.address)
  })

  test('of a database that is sent is made there, too', async () => {
    const headers = { 'content-type': 'application/vnd.sqlite3' }
    const { bytes: body } = await ask('/v1/databases/{cell}/export')
    const got = await ask('/v1/databases?name=imported', { method: 'POST', headers, body })
    expect(got.status).toBe(201)
    expect(bench.store.findCell(String(got.json['id']))?.name).toBe('imported')
  })

  test('with the state of another cell is made where that cell is, wherever it is asked for', async () => {
    await ask('/v1/databases/{cell}/backup', { method: 'POST', body: '{}' })
    front.maker = 'here'
    const body = JSON.stringify({ from: { cell_id: bench.cell } })
    const got = await ask('/v1/databases', { method: 'POST', body })
    expect(got.status).toBe(201)
    expect(got.headers['cellstore-owner']).toBe(owner.self.address)
  })

  test('with the state of a cell of a third node: the second one says who that is', async () => {
    await ask('/v1/databases/{cell}/backup', { method: 'POST', body: '{}' })
    const maker = new ScriptedPeers('6a1f4d1e-0000-4000-8000-00000000000c')
    await serve(maker)
    maker.owner = owner.self
    front.maker = maker.self
    const body = JSON.stringify({ from: { cell_id: bench.cell } })
    const got = await ask('/v1/databases', { method: 'POST', body })
    expect(got.status).toBe(201)
    expect(got.headers['cellstore-owner']).toBe(owner.self.address)
  })

  test('that is asked for again with its idempotency key is answered by whoever has it', async () => {
    const headers = { 'idempotency-key': 'once' }
    const first = await ask('/v1/databases', { method: 'POST', body: '{}', headers })
    front.maker = 'here'
    const second = await ask('/v1/databases', { method: 'POST', body: '{}', headers })
    expect(second.json).toEqual(first.json)
    expect(second.headers['idempotent-replayed']).toBe('true')
    expect(second.headers['cellstore-owner']).toBe(owner.self.address)
  })
})
