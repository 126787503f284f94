import fs from 'node:fs'
import http from 'node:http'
import net from 'node:net'
import path from 'node:path'
import { pathToFileURL } from 'node:url'
import { describe, expect, onTestFinished, test, vi } from 'vitest'
import type { BackupManager } from '../../../src/backup/backup-manager.ts'
import type { MakeBackupOptions } from '../../../src/backup/versions/backup-types.ts'
import { type Clock, systemClock } from '../../../src/base/clock.ts'
import { StorePaths } from '../../../src/base/files/store-paths.ts'
import { type Log, silentLog } from '../../../src/base/log.ts'
import { ownerClient, type Transport } from '../../../src/cli/owner/owner-client.ts'
import { serveOwner } from '../../../src/cli/owner/owner-server.ts'
import { takeSocketPlace } from '../../../src/cli/owner/socket-place.ts'
import { connectSocket } from '../../../src/cli/owner/socket-transport.ts'
import { storeTransport } from '../../../src/cli/owner/store-transport.ts'
import { CellError } from '../../../src/errors.ts'
import { GREETING_PATH, greeting, HEARTBEAT_MS } from '../../../src/http/routes/owner/owner-protocol.ts'
import { InProcessService } from '../../../src/service/in-process-service.ts'
import { FakeClock } from '../../support/fake-clock.ts'
import { BOUNDS } from '../../support/request-bounds.ts'
import { StoreDirectory } from '../../support/store-directory.ts'
import { tempDirectory } from '../../support/temp-directory.ts'
import { rejectedBy } from '../../support/thrown.ts'
import { turnsUntil } from '../../support/turns.ts'
import { ownerClientContract } from './owner-client.contract.ts'

async function openStore(clock: Clock = systemClock) {
  const folder = tempDirectory()
  const data = StoreDirectory.ofTest(path.join(folder, 'data'))
  const objectStore = pathToFileURL(path.join(folder, 'objects')).href
  return { store: await data.create({ objectStore, clock }), paths: data.paths }
}

async function openedHere() {
  const { store } = await openStore()
  return { store, client: ownerClient(storeTransport(store), systemClock) }
}

async function servedByNode({ logger = silentLog, clock }: { logger?: Log; clock?: Clock } = {}) {
  const { store, paths } = await openStore(clock)
  const service = new InProcessService(store, { restoreWaitMs: 20_000, bounds: BOUNDS })
  const server = await serveOwner(store, takeSocketPlace(paths), { service, logger })
  onTestFinished(() => server.stop({ drainMs: 0 }))
  const transport = (await connectSocket(server.path)) as Transport
  return { client: ownerClient(transport, systemClock), transport, service, store, server, paths }
}

ownerClientContract('a store that is open in this process', openedHere)
ownerClientContract("a node's socket", servedByNode)

describe("a node's socket", () => {
  test('belongs to its owner alone', async () => {
    const { server, paths } = await servedByNode()
    expect(server.path).toBe(paths.socket)
    expect(fs.statSync(server.path).mode & 0o777).toBe(0o600)
    expect(fs.statSync(paths.root).mode & 0o777).toBe(0o700)
  })

  test('has its mode from the first instant, with any umask, and does not change the umask', async () => {
    const before = process.umask(0)
    try {
      const { server } = await servedByNode()
      expect(fs.statSync(server.path).mode & 0o777).toBe(0o600)
      expect(process.umask()).toBe(0)
    } finally {
      process.umask(before)
    }
  })

  test('lies in a temporary folder of its owner if its path would be too long', () => {
    const folder = tempDirectory()
    const place = takeSocketPlace(new StorePaths(path.join(folder, 'x'.repeat(100))), undefined, folder)
    expect(path.dirname(path.dirname(place.path))).toBe(folder)
    expect(fs.statSync(path.dirname(place.path)).mode & 0o777).toBe(0o700)
    place.dispose()
    expect(fs.readdirSync(folder)).toEqual([])
  })

  test('that a killed node left in a temporary folder is removed by the next node, and nothing else is', () => {
    const folder = tempDirectory()
    const paths = new StorePaths(path.join(folder, 'x'.repeat(100)))
    const killed = takeSocketPlace(paths, undefined, folder)
    fs.writeFileSync(killed.path, '')
    const foreign = path.join(folder, 'precious', 'admin.sock')
    fs.mkdirSync(path.dirname(foreign))
    fs.writeFileSync(foreign, '')
    takeSocketPlace(paths, foreign, folder).dispose()
    takeSocketPlace(paths, killed.path, folder).dispose()
    expect(fs.readdirSync(folder)).toEqual(['precious'])
    expect(fs.existsSync(foreign)).toBe(true)
  })

  test('is gone once the node has stopped, and a command finds nobody', async () => {
    const { server, client } = await servedByNode()
    await server.stop({ drainMs: 0 })
    expect(fs.existsSync(server.path)).toBe(false)
    expect(await connectSocket(server.path)).toBeUndefined()
    expect(await rejectedBy(client.listKeys({}))).toMatchObject({
      code: 'shutting_down',
      message: expect.stringContaining('Nothing was changed'),
    })
  })

  test('that a dead process left behind is not a node, and makes way for the next one', async () => {
    const { paths } = await openStore()
    // A socket file without a listener: its server is closed behind the file system's back.
    const dead = net.createServer().listen(paths.socket)
    await new Promise((resolve) => dead.once('listening', resolve))
    fs.linkSync(paths.socket, `${paths.socket}.kept`)
    await new Promise((resolve) => dead.close(resolve))
    fs.renameSync(`${paths.socket}.kept`, paths.socket)
    expect(await connectSocket(paths.socket)).toBeUndefined()
    takeSocketPlace(paths)
    expect(fs.existsSync(paths.socket)).toBe(false)
  })

  test.skipIf(process.getuid?.() === 0)('of another user is not for this one', async () => {
    const { server } = await servedByNode()
    fs.chmodSync(server.path, 0)
    expect(await rejectedBy(connectSocket(server.path))).toMatchObject({
      code: 'store_locked',
      message: expect.stringContaining('another user'),
    })
  })

  test('refuses requests that it does not understand, each with its problem', async () => {
    const { transport, server } = await servedByNode()
    const codeOf = async (method: string, target: string, body?: string) =>
      JSON.parse((await transport.send({ method, target, body })).body).code
    expect(await codeOf('POST', '/owner/dance', '{}')).toBe('not_found')
    expect(await codeOf('PUT', '/owner/databases', '{}')).toBe('method_not_allowed')
    expect(await codeOf('POST', '/owner/databases', '{"name":1}')).toBe('invalid_request')
    expect(await codeOf('POST', '/owner/databases', '{')).toBe('invalid_json')
    const announced = 'Content-Type: application/json\r\nContent-Length: 99999999'
    expect(await exchange(server.path, 'POST /owner/databases', announced)).toContain('"body_too_large"')
  })

  test('has no routes of an account', async () => {
    const { transport } = await servedByNode()
    for (const target of ['/v1/databases', '/v1/api-keys']) {
      expect(await transport.send({ method: 'GET', target })).toMatchObject({ status: 404 })
    }
  })

  test('tells a bug to the log, and the command only where to look', async () => {
    const logged: { err?: unknown; requestId?: string }[] = []
    const { client, service } = await servedByNode({
      logger: { ...silentLog, error: (fields) => void logged.push(fields) },
    })
    vi.spyOn(service, 'backups', 'get').mockImplementation(() => {
      throw new TypeError('secret of the bug')
    })
    const { account_id } = await client.createKey({ newAccount: true })
    const { id: cell } = await client.createCell({ account: account_id })
    const { code, message } = await rejectedBy(client.listBackups({ cell }))
    expect(code).toBe('internal')
    expect(logged).toEqual([expect.objectContaining({ err: expect.any(TypeError) })])
    expect(message).toBe(`An unexpected error occurred. The log has it as request ${logged[0]?.requestId}.`)
  })

  test('tells the owner what was behind an error, also of codes that tenants never see', async () => {
    const { client, service, store } = await servedByNode()
    const cause = new Error('connect ECONNREFUSED 127.0.0.1:1')
    service.deleteCell = () => Promise.reject(new CellError('object_store_mismatch', 'It is /x.', { cause }))
    expect(await rejectedBy(client.deleteCell({ cell: store.createCell().id }))).toMatchObject({
      code: 'object_store_mismatch',
      message: 'It is /x. (connect ECONNREFUSED 127.0.0.1:1)',
    })
  })

  test('gives signs of life while a request takes long, and the end of a command ends its work', async () => {
    const clock = new FakeClock()
    const logged: object[] = []
    const logger = { ...silentLog, error: (fields: object) => void logged.push(fields) }
    const { service, store, server } = await servedByNode({ logger, clock })
    let signal: AbortSignal | undefined
    // A backup that ends only when it is aborted.
    const snapshot = (_cell: string, options: MakeBackupOptions) => {
      signal = options.signal
      return new Promise((_, reject) => signal?.addEventListener('abort', () => reject(new Error('aborted'))))
    }
    vi.spyOn(service, 'backups', 'get').mockReturnValue({ snapshot } as unknown as BackupManager)
    const socket = net.connect(server.path)
    let received = ''
    socket.setEncoding('utf8').on('data', (chunk: string) => {
      received += chunk
    })
    socket.write(`POST /owner/databases/${store.createCell().id}/backup HTTP/1.1\r\nHost: x\r\n\r\n`)
    await turnsUntil(() => signal !== undefined, 'the backup is under way')
    for (let beats = 1; beats <= 3; beats++) {
      clock.advance(HEARTBEAT_MS)
      const sign = 'HTTP/1.1 102 Processing\r\n\r\n'
      await turnsUntil(() => received === sign.repeat(beats), `${beats} signs of life`)
    }
    socket.destroy()
    await turnsUntil(() => signal?.aborted === true, 'the backup is aborted')
    expect(logged).toEqual([])
  })
})

describe('a command', () => {
  test('waits for a cell that is being restored, for longer than a request may', async () => {
    const clock = new FakeClock()
    const bodies = ['{"code":"cell_restoring","detail":"Wait."}', '{"rows":[]}']
    const send = async () => ({ status: bodies.length > 1 ? 503 : 200, body: bodies.shift() as string })
    const answer = ownerClient({ send, close: async () => {} }, clock).sql({ cell: 'x', sql: 'SELECT 1' })
    await turnsUntil(() => clock.nextTimerMs !== undefined, 'it waits')
    clock.advance(clock.nextTimerMs as number)
    expect(await answer).toEqual({ rows: [] })
  })

  test('takes an unknown code of another version as internal, and says so of an unknown route', async () => {
    const answers = (problem: object) =>
      ownerClient(
        { send: async () => ({ status: 400, body: JSON.stringify(problem) }), close: async () => {} },
        systemClock,
      )
    expect(await rejectedBy(answers({ code: 'brand_new', detail: 'New.' }).listKeys({}))).toMatchObject({
      code: 'internal',
      message: 'New.',
    })
    expect(await rejectedBy(answers({ code: 'not_found', detail: '' }).listKeys({}))).toMatchObject({
      code: 'invalid_request',
      message: expect.stringContaining('another version'),
    })
  })

  test.each([
    [
      'another protocol',
      200,
      { ...greeting(), protocol: 99, version: '9.9.9' },
      /process \d+\) is cellstore 9\.9\.9\./,
    ],
    ['no greeting', 404, { code: 'not_found' }, /is cellstore of another version\./],
    ['something else', 200, 'x', /is cellstore of another version\./],
  ])(
    'and a node that answers %s do not work together, and both versions are named',
    async (_, status, body, named) => {
      const path = await fakeNode((_request, response) =>
        response.writeHead(status).end(JSON.stringify(body)),
      )
      const error = await rejectedBy(connectSocket(path))
      expect(error).toMatchObject({ code: 'busy', message: expect.stringMatching(named) })
      expect(error.message).toContain(`This command is cellstore ${greeting().version}`)
    },
  )

  test('tells a node that went away in the middle from one that did nothing', async () => {
    const path = await fakeNode((request, response) => {
      if (request.url === GREETING_PATH) response.end(JSON.stringify(greeting()))
      else response.writeHead(200, { 'Content-Length': 100 }).write('{', () => response.destroy())
    })
    const transport = (await connectSocket(path)) as Transport
    expect(await rejectedBy(ownerClient(transport, systemClock).listKeys({}))).toMatchObject({
      code: 'shutting_down',
      message: expect.stringContaining('may have run or not'),
    })
  })

  test('takes a node that goes away during the greeting for one that has stopped', async () => {
    expect(await connectSocket(await fakeNode((request) => request.destroy()))).toBeUndefined()
  })
})

/** Listens on a socket in place of a node. @returns its path */
async function fakeNode(answer: http.RequestListener): Promise<string> {
  const socket = path.join(tempDirectory(), 's')
  const server = http.createServer(answer)
  await new Promise<void>((resolve) => server.listen(socket, resolve))
  onTestFinished(() => void server.close())
  return socket
}

/** The answer to the head of a request that is written by hand. */
function exchange(socketPath: string, start: string, headers: string): Promise<string> {
  return new Promise((resolve, reject) => {
    const socket = net.connect(socketPath)
    socket.setEncoding('utf8').once('data', (answer: string) => {
      resolve(answer)
      socket.destroy()
    })
    socket.on('error', reject)
    socket.write(`${start} HTTP/1.1\r\nHost: x\r\n${headers}\r\n\r\n`)
  })
}
