import fs from 'node:fs'
import http from 'node:http'
import type { AddressInfo } from 'node:net'
import path from 'node:path'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { Application } from '../../src/http/core/application.ts'
import { TENANTS } from '../../src/http/core/audience.ts'
import { OWNER } from '../../src/http/routes/owner/owner-routes.ts'
import { listenerOf } from '../../src/http/server/node-listener.ts'
import type { CellService } from '../../src/service/cell-service.ts'
import { InProcessService } from '../../src/service/in-process-service.ts'
import { importHere } from '../../src/store/cells/cell-imports.ts'
import { foreign, leftOvers } from '../support/database-files.ts'
import { Bench } from '../support/http/bench.ts'
import { SteppedClock } from '../support/http/stepped-clock.ts'
import { viaFetch } from '../support/http/transports.ts'
import { BOUNDS } from '../support/request-bounds.ts'
import { until } from '../support/until.ts'

/** A client goes away while its request is at work: nothing of it is half done, and all that it held is given back. */

const SQLITE = 'application/vnd.sqlite3'
const DAY_MS = 24 * 3_600_000

/** Its days really pass: nobody has set it. */
class PassingClock extends SteppedClock {
  #days = 0

  passDay(): void {
    this.step(DAY_MS)
    this.#days++
  }

  override sinceBoot(): number {
    return super.sinceBoot() + this.#days * DAY_MS
  }
}

let bench: Bench
let clock: PassingClock
const servers: http.Server[] = []
/** Requests that the server has begun and not ended. */
let atWork: number
const imports = gate()
const exports = gate()

/** Lets a test see when work arrives at a place, and hold it there. */
function gate() {
  const state = {
    isClosed: false,
    arrived: 0,
    go: () => {},
    async pass() {
      state.arrived++
      if (state.isClosed) await new Promise<void>((resolve) => (state.go = resolve))
    },
  }
  return state
}

beforeEach(async () => {
  clock = new PassingClock()
  bench = await Bench.open(viaFetch, {
    store: {
      clock,
      backups: {
        snapshotEveryMs: null,
        incrementalEveryMs: null,
        drillEveryMs: null,
        prune: false,
        keep: 'all:1h',
      },
      quotas: { backupsAtOnce: 1, bytesMax: 450_000 },
    },
  })
  atWork = 0
  for (const each of [imports, exports]) Object.assign(each, { isClosed: false, arrived: 0 })
})

afterEach(async () => {
  for (const server of servers.splice(0)) {
    server.closeAllConnections()
    server.close()
  }
  await bench.close()
})

/** The parts that run in a node, with gates in front of them. */
function service(): CellService {
  const { store } = bench
  const inProcess = new InProcessService(store, { restoreWaitMs: 1_000, bounds: BOUNDS })
  const gated: Partial<CellService> = {
    backups: inProcess.backups,
    confirmRecord: (...asked) => inProcess.confirmRecord(...asked),
    importCell: async (source, options) => {
      const build = async (request: Parameters<typeof importHere>[0]) => {
        await imports.pass()
        await importHere(request)
      }
      return (await store.core.imports.import(source, { ...options, sqlPolicy: 'tenant' }, build)).id
    },
    exportCell: async (...asked) => {
      const exported = await inProcess.exportCell(...asked)
      await exports.pass()
      return exported
    },
  }
  return gated as CellService
}

async function serve(audience = TENANTS): Promise<number> {
  const application = new Application(bench.store, { service: service() }, audience)
  const listener = listenerOf(application)
  const handle = application.handle.bind(application)
  application.handle = (request) => {
    atWork++
    return handle(request).finally(() => atWork--)
  }
  const server = http.createServer(listener)
  servers.push(server)
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  return (server.address() as AddressInfo).port
}

function ask(port: number, method: string, target: string, headers: http.OutgoingHttpHeaders = {}) {
  const request = http.request({
    port,
    method,
    path: bench.fill(target),
    headers: { 'x-api-key': bench.key, ...headers },
  })
  const status = new Promise<number | undefined>((resolve) => {
    request.on('response', (response) => {
      response.resume()
      response.on('close', () => resolve(response.complete ? response.statusCode : undefined))
    })
    request.on('error', () => resolve(undefined))
  })
  return { request, status }
}

const begun = () => until(() => atWork > 0, 'the request is at work')
const over = () => until(() => atWork === 0, 'the server has ended the request')
const cells = () => bench.store.cells().cells.length
const left = () => leftOvers({ directory: path.join(bench.directory, 'data') }, cells())
const stored = () => fs.readdirSync(bench.backupDirectory).sort()

describe('An import', () => {
  const bytes = () => fs.readFileSync(foreign('CREATE TABLE t (a); INSERT INTO t VALUES (zeroblob(200000));'))
  const send = (port: number, length: number) =>
    ask(port, 'POST', '/v1/databases?name=abandoned', { 'content-type': SQLITE, 'content-length': length })

  /** The one place for backups under way, most of the quota of bytes, and the name. */
  async function expectAllFree(port: number) {
    await over()
    await until(() => left().length === 0, 'nothing is left')
    expect(cells()).toBe(1)
    const whole = bytes()
    const again = send(port, whole.length)
    again.request.end(whole)
    expect(await again.status).toBe(201)
    expect(cells()).toBe(2)
  }

  test.each([
    ['its first byte', 0],
    ['half of it', 100_000],
  ])('whose client goes away after %s makes no cell and keeps nothing', async (_, sent) => {
    const port = await serve()
    const whole = bytes()
    const { request } = send(port, whole.length)
    request.flushHeaders()
    if (sent > 0) request.write(whole.subarray(0, sent))
    await begun()
    request.destroy()
    await expectAllFree(port)
  })

  test('whose client goes away while it waits for its check makes no cell and keeps nothing', async () => {
    const port = await serve()
    const whole = bytes()
    imports.isClosed = true
    const { request } = send(port, whole.length)
    request.end(whole)
    await until(() => imports.arrived === 1, 'all is received')
    request.destroy()
    await connectionsClosed()
    imports.isClosed = false
    imports.go()
    await expectAllFree(port)
  })
})

/** The server has seen that its clients are gone. */
async function connectionsClosed(): Promise<void> {
  const count = () => new Promise<number>((resolve) => servers[0]?.getConnections((_, open) => resolve(open)))
  await until(async () => (await count()) === 0, 'no connection is open')
}

describe('An export', () => {
  test('whose client goes away when its copy is ready, and before it is sent, leaves no file and gives its place back', async () => {
    const port = await serve()
    exports.isClosed = true
    const { request } = ask(port, 'GET', '/v1/databases/{cell}/export')
    request.end()
    await until(() => exports.arrived === 1, 'the copy is ready')
    expect(left().filter((file) => file.startsWith('export-'))).toHaveLength(1)
    request.destroy()
    await connectionsClosed()
    exports.isClosed = false
    exports.go()
    await over()
    await until(() => left().length === 0, 'the copy is gone')
    const again = ask(port, 'GET', '/v1/databases/{cell}/export')
    again.request.end()
    expect(await again.status).toBe(200)
  })
})

describe('A restore of an account', () => {
  test('goes on without its client, and gives back what it held', async () => {
    const port = await serve()
    const cell = bench.store.openCell(bench.cell)
    cell.kv.put('k', 'as it was')
    await bench.store.backups.snapshot(bench.cell)
    cell.kv.put('k', 'newer')
    bench.objectStore.gates = (call) => call === 'get'
    const { request } = ask(port, 'POST', '/v1/databases/{cell}/restore')
    request.end()
    await bench.objectStore.arrival()
    request.destroy()
    await connectionsClosed()
    bench.objectStore.open()
    await over()
    expect(cell.kv.get('k')).toBe('as it was')
    const again = ask(port, 'POST', '/v1/databases/{cell}/restore')
    again.request.end()
    expect(await again.status).toBe(200)
    expect(left()).toEqual([])
  })
})

test('A restore of a deleted cell that fails leaves no folder of it', async () => {
  const port = await serve()
  await bench.store.backups.snapshot(bench.cell)
  bench.store.deleteCell(bench.cell)
  bench.objectStore.gates = (call) => call === 'get'
  const { request, status } = ask(port, 'POST', '/v1/databases/{cell}/restore')
  request.end()
  await bench.objectStore.arrival()
  bench.store.accounts.setQuotas(bench.accountId, { bytesMax: 1 })
  bench.objectStore.open()
  expect(await status).toBe(403)
  expect(left()).toEqual([])
})

describe('What the owner asks for', () => {
  const post = (port: number, action: string, body: object) => {
    const asked = ask(port, 'POST', `/owner/databases/{cell}/backups/${action}`, {
      'content-type': 'application/json',
    })
    asked.request.end(bench.fill(JSON.stringify(body)))
    return asked
  }
  const snapshots = async (count: number) => {
    for (let i = 0; i < count; i++) {
      clock.step(1_000)
      bench.store.openCell(bench.cell).kv.put('k', `${i}`)
      await bench.store.backups.snapshot(bench.cell)
    }
  }

  test('a purge whose client goes away ends between two objects: what is left restores, and a repetition removes it', async () => {
    const port = await serve(OWNER)
    await snapshots(4)
    bench.store.deleteCell(bench.cell)
    let removals = 0
    bench.objectStore.gates = (call) => call === 'delete' && ++removals === 3
    const { request } = post(port, 'purge', { confirm: '{cell}' })
    await bench.objectStore.arrival()
    expect(stored()).toHaveLength(2)
    request.destroy()
    await over()
    bench.objectStore.open()
    expect(stored()).toHaveLength(2)
    expect(bench.store.findCell(bench.cell)?.deletedAt).not.toBeNull()
    const { versions } = (await bench.store.retention?.prune(bench.cell, { dryRun: true })) ?? {}
    expect(versions).toHaveLength(2)
    await bench.store.backups.restore(bench.cell)
    expect(bench.store.openCell(bench.cell).kv.get('k')).toBe('1')
    bench.store.deleteCell(bench.cell)
    expect(await post(port, 'purge', { confirm: '{cell}' }).status).toBe(200)
    expect(fs.existsSync(bench.backupDirectory)).toBe(false)
  })

  test.each(['list', 'get', 'delete'] as const)(
    'a prune whose client goes away at a call "%s" loses no version that its plan keeps, and a repetition does the rest',
    async (at) => {
      const port = await serve(OWNER)
      await snapshots(4)
      const keeps = async () => {
        const { versions } = (await bench.store.retention?.prune(bench.cell, { dryRun: true })) ?? {}
        return versions?.filter(({ action }) => action === 'keep').map(({ version }) => version)
      }
      // What is marked now goes a day later.
      clock.passDay()
      expect(await post(port, 'prune', {}).status).toBe(200)
      clock.passDay()
      const kept = await keeps()
      expect(kept?.length).toBeLessThan(4)
      bench.objectStore.gates = (call, key) => call === at && key.includes(bench.cell)
      const { request } = post(port, 'prune', {})
      await bench.objectStore.arrival()
      request.destroy()
      await over()
      expect(bench.objectStore.waiting).toBe(0)
      bench.objectStore.open()
      expect(await keeps()).toEqual(kept)
      expect(await post(port, 'prune', {}).status).toBe(200)
      const versions = stored().filter((name) => name.startsWith('backup-'))
      expect(versions).toEqual(kept?.map((version) => version.split('/').at(-1)).sort())
      await bench.store.backups.restore(bench.cell)
      expect(bench.store.openCell(bench.cell).kv.get('k')).toBe('3')
    },
  )
})
