import type { AddressInfo } from 'node:net'
import { describe, expect, onTestFinished, test } from 'vitest'
import { OWNER } from '../../src/http/routes/owner/owner-routes.ts'
import { ROUTES } from '../../src/http/routes/routes.ts'
import { NodeServer } from '../../src/http/server/node-server.ts'
import { Bench } from '../support/http/bench.ts'
import { sendOverSocket, TRANSPORTS, type TransportFactory } from '../support/http/transports.ts'
import { checkProblem } from './rows/row.ts'

const viaNodeServer: TransportFactory = async (store, options) => {
  const server = new NodeServer(store, options)
  const { port } = (await server.start({ host: '127.0.0.1', port: 0 })) as AddressInfo
  return {
    send: (request) => sendOverSocket(request, { port }),
    close: () => server.stop({ drainMs: 0 }),
  }
}

describe("the owner's routes", () => {
  test('are none of the routes of an account, and under /owner', () => {
    const paths = new Set(ROUTES.map(([, path]) => path))
    for (const [, path] of OWNER.routes) {
      expect(path).toMatch(/^\/owner(\/|$)/)
      expect(paths).not.toContain(path)
    }
  })

  test.each([...TRANSPORTS, ['the server of a node', viaNodeServer] as const])(
    'do not exist for a key, through %s',
    async (_, transport) => {
      const bench = await Bench.open(transport)
      onTestFinished(() => bench.close())
      for (const [method, route] of OWNER.routes) {
        const path = route.replace('{id}', bench.cell)
        const body = ['POST', 'PUT'].includes(method) ? {} : undefined
        checkProblem(await bench.send({ method, path, body }), 404, { code: 'not_found' })
        expect((await bench.send({ method, path, body, key: null })).status).toBe(401)
      }
      expect(bench.store.findCell(bench.cell)?.deletedAt).toBeNull()
    },
  )
})
