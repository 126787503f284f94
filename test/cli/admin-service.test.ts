import fs from 'node:fs'
import net from 'node:net'
import path from 'node:path'
import { pathToFileURL } from 'node:url'
import { describe, expect, onTestFinished, test } from 'vitest'
import { systemClock } from '../../src/base/clock.ts'
import { type Log, silentLog } from '../../src/base/log.ts'
import { StorePaths } from '../../src/base/store-paths.ts'
import { HEARTBEAT_MS } from '../../src/cli/admin/admin-protocol.ts'
import { AdminServer } from '../../src/cli/admin/admin-server.ts'
import { SocketAdmin } from '../../src/cli/admin/socket-admin.ts'
import { SocketPlace } from '../../src/cli/admin/socket-place.ts'
import { StoreAdmin } from '../../src/cli/admin/store-admin.ts'
import { InProcessService } from '../../src/service/in-process-service.ts'
import { CellStore } from '../../src/store/cell-store.ts'
import { FakeClock } from '../support/fake-clock.ts'
import { tempDirectory } from '../support/temp-directory.ts'
import { rejectedBy } from '../support/thrown.ts'
import { turnsUntil } from '../support/turns.ts'
import { type AdminUnderTest, adminServiceContract } from './admin-service.contract.ts'

async function openStore(): Promise<{ store: CellStore; admin: StoreAdmin; paths: StorePaths }> {
  const folder = tempDirectory()
  const paths = new StorePaths(path.join(folder, 'data'))
  const store = await CellStore.create(paths.root, {
    objectStore: pathToFileURL(path.join(folder, 'objects')).href,
  })
  onTestFinished(() => store.close())
  const service = new InProcessService(store, { restoreWaitMs: 20_000, answerBytesMax: 10_485_760 })
  return { store, admin: new StoreAdmin(store, service), paths }
}

async function serveAdmin(
  log: Log = silentLog,
): Promise<AdminUnderTest & { service: StoreAdmin; server: AdminServer; paths: StorePaths }> {
  const { store, admin: service, paths } = await openStore()
  const server = await AdminServer.start({ service, place: SocketPlace.take(paths), clock: systemClock, log })
  onTestFinished(() => server.stop({ drainMs: 0 }))
  const admin = (await SocketAdmin.connect(server.path)) as SocketAdmin
  return { admin, service, store, server, paths }
}

adminServiceContract('the store itself', openStore)
adminServiceContract("a node's socket", serveAdmin)

describe("a node's socket", () => {
  test('is its owner’s alone', async () => {
    const { server, paths } = await serveAdmin()
    expect(server.path).toBe(paths.socket)
    expect(fs.statSync(server.path).mode & 0o777).toBe(0o600)
    expect(fs.statSync(paths.root).mode & 0o777).toBe(0o700)
  })

  test('has its mode from the first instant, whatever the umask is, and leaves that as it was', async () => {
    const before = process.umask(0)
    try {
      const { server } = await serveAdmin()
      expect(fs.statSync(server.path).mode & 0o777).toBe(0o600)
      expect(process.umask()).toBe(0)
    } finally {
      process.umask(before)
    }
  })

  test('lies elsewhere if its path would be too long, in a folder of its owner', () => {
    const folder = tempDirectory()
    const place = SocketPlace.take(new StorePaths(path.join(folder, 'x'.repeat(100))), undefined, folder)
    expect(path.dirname(path.dirname(place.path))).toBe(folder)
    expect(fs.statSync(path.dirname(place.path)).mode & 0o777).toBe(0o700)
    place.dispose()
    expect(fs.readdirSync(folder)).toEqual([])
  })

  test('that a killed node left elsewhere goes with the next node, and nothing else does', () => {
    const folder = tempDirectory()
    const paths = new StorePaths(path.join(folder, 'x'.repeat(100)))
    const killed = SocketPlace.take(paths, undefined, folder)
    fs.writeFileSync(killed.path, '')
    const foreign = path.join(folder, 'precious', 'admin.sock')
    fs.mkdirSync(path.dirname(foreign))
    fs.writeFileSync(foreign, '')
    SocketPlace.take(paths, foreign, folder).dispose()
    SocketPlace.take(paths, killed.path, folder).dispose()
    expect(fs.readdirSync(folder)).toEqual(['precious'])
    expect(fs.existsSync(foreign)).toBe(true)
  })

  test('is gone once the node has stopped, and a command finds nobody', async () => {
    const { server, admin } = await serveAdmin()
    await server.stop({ drainMs: 0 })
    expect(fs.existsSync(server.path)).toBe(false)
    expect(await SocketAdmin.connect(server.path)).toBeUndefined()
    expect(await rejectedBy(admin.listKeys({}))).toMatchObject({
      code: 'shutting_down',
      message: expect.stringContaining('nothing was done'),
    })
  })

  test('that a dead process left behind is no node, and makes way for the next', async () => {
    const { paths } = await openStore()
    // A socket file without a listener: its server is closed behind the file system's back.
    const dead = net.createServer().listen(paths.socket)
    await new Promise((resolve) => dead.once('listening', resolve))
    fs.linkSync(paths.socket, `${paths.socket}.kept`)
    await new Promise((resolve) => dead.close(resolve))
    fs.renameSync(`${paths.socket}.kept`, paths.socket)
    expect(await SocketAdmin.connect(paths.socket)).toBeUndefined()
    SocketPlace.take(paths)
    expect(fs.existsSync(paths.socket)).toBe(false)
  })

  test('says what it does not understand', async () => {
    const { server } = await serveAdmin()
    const answers = await Promise.all([
      exchange(server.path, 'POST /dance', '{}'),
      exchange(server.path, 'POST /constructor', '{}'),
      exchange(server.path, 'POST /createCell', '{"name":1}'),
      exchange(server.path, 'POST /createCell', '{'),
    ])
    expect(answers.map((answer) => JSON.parse(answer).error.code)).toEqual([
      'invalid_request',
      'invalid_request',
      'invalid_request',
      'invalid_json',
    ])
  })

  test('tells a bug to the log, and nothing of it to the command', async () => {
    const logged: object[] = []
    const log = { ...silentLog, error: (fields: object) => void logged.push(fields) }
    const { admin, service } = await serveAdmin(log)
    service.listKeys = () => Promise.reject(new TypeError('secret of the bug'))
    expect(await rejectedBy(admin.listKeys({}))).toMatchObject({
      code: 'internal',
      message: 'An unexpected error occurred. The log of the node has it.',
    })
    expect(logged).toEqual([{ err: expect.any(TypeError) }])
  })

  test('gives signs of life while there is nothing to say, and a command that is called off ends its work', async () => {
    const clock = new FakeClock()
    const { admin: service, paths } = await openStore()
    let signal: AbortSignal | undefined
    // A backup that never ends by itself.
    service.backup = (_input, transfer = {}) => {
      signal = transfer.signal
      return new Promise(() => {})
    }
    const server = await AdminServer.start({ service, place: SocketPlace.take(paths), clock, log: silentLog })
    onTestFinished(() => server.stop({ drainMs: 0 }))
    const socket = net.connect(server.path)
    let received = ''
    socket.setEncoding('utf8').on('data', (chunk: string) => {
      received += chunk
    })
    const body = JSON.stringify({ cell: 'x', kind: 'snapshot' })
    socket.write(`POST /backup HTTP/1.1\r\nWorker: x\r\nContent-Length: ${body.length}\r\n\r\n${body}`)
    await turnsUntil(() => signal !== undefined, 'the backup is under way')
    for (let beats = 1; beats <= 3; beats++) {
      clock.advance(HEARTBEAT_MS)
      // A chunk of one line feed.
      await turnsUntil(() => received.split('\r\n1\r\n\n').length === beats + 1, `${beats} signs of life`)
    }
    socket.destroy()
    await turnsUntil(() => signal?.aborted === true, 'the backup is called off')
  })

  test('a node that goes away in the middle is told from one that did nothing', async () => {
    const folder = tempDirectory()
    const socket = path.join(folder, 's')
    const server = net.createServer((connection) => {
      connection.once('data', () => connection.end('HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n'))
    })
    await new Promise<void>((resolve) => server.listen(socket, resolve))
    onTestFinished(() => void server.close())
    expect(await rejectedBy(SocketAdmin.connect(socket) as Promise<unknown>)).toMatchObject({
      code: 'shutting_down',
      message: expect.stringContaining('may be done or not'),
    })
  })
})

/** The last line of the answer to a request that is written by hand. */
function exchange(socketPath: string, start: string, body: string): Promise<string> {
  return new Promise((resolve, reject) => {
    const socket = net.connect(socketPath)
    let received = ''
    socket.setEncoding('utf8')
    socket.on('data', (chunk: string) => {
      received += chunk
    })
    socket.on('error', reject)
    socket.on('close', () => resolve(received.split('\n').find((line) => line.startsWith('{')) ?? ''))
    socket.end(
      `${start} HTTP/1.1\r\nWorker: x\r\nConnection: close\r\nContent-Length: ${body.length}\r\n\r\n${body}`,
    )
  })
}
