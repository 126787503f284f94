import http from 'node:http'
import type { AddressInfo } from 'node:net'
import { beforeEach, describe, expect, onTestFinished, test } from 'vitest'
import { CellError } from '../../../src/errors.ts'
import { PeerClient } from '../../../src/http/forwarding/peer-client.ts'
import { SIGNATURE_HEADER, SignatureCheck, Signer } from '../../../src/http/forwarding/signature.ts'
import { Bench } from '../../support/http/bench.ts'
import { ScriptedPeers } from '../../support/http/scripted-peers.ts'
import { viaFetch } from '../../support/http/transports.ts'

const bench = Bench.perTest(viaFetch)
let peers: ScriptedPeers
let client: PeerClient

beforeEach(async () => {
  peers = new ScriptedPeers('6a1f4d1e-0000-4000-8000-00000000000a')
  await restart()
  client = new PeerClient(peers.secret, bench.clock)
  onTestFinished(() => client.close())
})

async function restart(): Promise<void> {
  const { port } = await bench.listen({ cluster: peers })
  peers.self.address = `http://127.0.0.1:${port}`
}

const call = (name: string, body?: unknown, timeoutMs = 5_000) =>
  client.call(peers.self.address, name, body, { timeoutMs })

describe('a call between nodes', () => {
  test('takes JSON there and back', async () => {
    peers.routes = { echo: async (body) => ({ body }), nothing: async () => undefined }
    expect(await call('echo', { version: 7 })).toEqual({ body: { version: 7 } })
    expect(await call('nothing')).toBeNull()
  })

  test('throws what the route throws, by its code', async () => {
    peers.routes = { fails: () => Promise.reject(new CellError('cell_moving', 'It moves.')) }
    await expect(call('fails')).rejects.toMatchObject({ code: 'cell_moving', message: 'It moves.' })
  })

  test('of a name that the node does not know is refused', async () => {
    await expect(call('toString')).rejects.toMatchObject({ code: 'not_found' })
  })

  test('reaches a node that was started again', async () => {
    peers.routes = { ping: async () => 'first' }
    expect(await call('ping')).toBe('first')
    const { address } = peers.self
    peers.routes = { ping: async () => 'second' }
    await restart()
    expect([await call('ping'), peers.self.address === address]).toEqual(['second', false])
  })

  test('by a clock an hour apart is none the worse', async () => {
    peers.routes = { ping: async () => 'ok' }
    bench.clock.step(3_600_000)
    expect(await call('ping')).toBe('ok')
  })

  test('with another secret is refused', async () => {
    peers.routes = { ping: async () => 'ok' }
    const stranger = new PeerClient('another secret', bench.clock)
    await expect(stranger.call(peers.self.address, 'ping', null, { timeoutMs: 5_000 })).rejects.toMatchObject(
      {
        code: 'unauthorized',
      },
    )
    stranger.close()
  })

  test('to nobody, and to a node that does not answer, ends in its time (invariant 13)', async () => {
    const unreachable = client.call('http://127.0.0.1:1', 'ping', null, { timeoutMs: 5_000 })
    await expect(unreachable).rejects.toMatchObject({ code: 'not_serving' })
    peers.routes = { stuck: () => new Promise(() => {}) }
    await expect(call('stuck', null, 200)).rejects.toMatchObject({ code: 'not_serving' })
  })

  test('to something else that answers says so', async () => {
    const server = http.createServer((_request, response) => void response.writeHead(404).end('<html>'))
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
    onTestFinished(() => void server.close())
    const address = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
    await expect(client.call(address, 'ping', null, { timeoutMs: 5_000 })).rejects.toThrow(
      /is no node of this cluster/,
    )
  })

  test('without a signature is refused, and nothing runs', async () => {
    let runs = 0
    peers.routes = { drain: async () => void runs++ }
    const answer = await fetch(`${peers.self.address}/internal/cluster/drain`, {
      method: 'POST',
      body: 'null',
    })
    expect([answer.status, runs]).toEqual([401, 0])
  })
})

describe('a signature', () => {
  const sent = { method: 'POST', path: '/internal/cluster/drain', body: '{}' }
  const check = new SignatureCheck('secret')
  const signer = new Signer('secret')

  test('counts once', () => {
    const header = signer.header(sent, check.challenge)
    expect([check.admits(header, sent), check.admits(header, sent)]).toEqual([true, false])
  })

  test('counts in any order', () => {
    const [first, second] = [
      signer.header(sent, check.challenge),
      signer.header(sent, check.challenge),
    ] as const
    expect([check.admits(second, sent), check.admits(first, sent), check.admits(first, sent)]).toEqual([
      true,
      true,
      false,
    ])
  })

  test.each([
    ['method', { ...sent, method: 'GET' }],
    ['path', { ...sent, path: '/internal/cluster/ping' }],
    ['body', { ...sent, body: '{"x":1}' }],
  ])('is for one %s', (_what, other) => {
    expect(check.admits(signer.header(sent, check.challenge), other)).toBe(false)
  })

  test('is for one process: what was signed for the one before is worth nothing', () => {
    const header = signer.header(sent, new SignatureCheck('secret').challenge)
    expect(check.admits(header, sent)).toBe(false)
  })

  test.each(['', 'x', 'a b c', 'a b c d', `${SIGNATURE_HEADER} 1 2 3 4`])(
    'that is none (%j) is refused',
    (header) => {
      expect(check.admits(header, sent)).toBe(false)
    },
  )
})
