import { randomBytes } from 'node:crypto'
import fs from 'node:fs'
import net from 'node:net'
import path from 'node:path'
import { pathToFileURL } from 'node:url'
import { describe, expect, onTestFinished, test } from 'vitest'
import { makeApiKey } from '../../src/auth/api-key.ts'
import {
  HEAP_GROWTH_OF_NODE,
  NEW_SPACE_OF_NODE,
  ONE_HELPER_THREAD,
} from '../../src/base/machine/v8-options.ts'
import { CellStore } from '../../src/store/cell-store.ts'
import { SlowRequest } from '../support/cli/slow-request.ts'
import { Workplace } from '../support/cli/workplace.ts'
import { freePort } from '../support/free-port.ts'
import { descendantsOf } from '../support/processes.ts'
import { filesBelow } from '../support/temp-directory.ts'
import { until } from '../support/until.ts'

const OK = [0, null]

const UNKNOWN_CELL = '3f6c2a52-7c5e-4b0a-9f39-1c1f5a0b7e11'

describe('the first start', () => {
  test('prints the key once, with a curl line that works, and a second start prints none', async () => {
    const place = new Workplace()
    const node = await place.serve()
    expect(node.stdout.match(new RegExp(node.key, 'g'))).toHaveLength(2)
    expect(node.stdout).toContain(`curl -X POST ${node.address}/v1/databases -H "x-api-key: ${node.key}"`)
    expect(node.stderr).not.toContain(node.key.slice(8))
    expect((await node.request('POST', '/v1/databases')).status).toBe(201)
    expect(await node.stop()).toEqual(OK)

    const again = await place.serve()
    expect(again.stdout).not.toContain('cell_sk_')
    expect((await again.request('GET', '/v1/api-keys', undefined, node.key)).status).toBe(200)
    expect(await again.stop()).toEqual(OK)
  })

  test('has printed it all before it answers anybody', async () => {
    const place = new Workplace()
    const port = await freePort()
    const printed = path.join(place.folder, 'printed')
    const child = place.spawn(['--port', String(port)], fs.openSync(printed, 'w'))
    let answered: Response | undefined
    while (answered === undefined && child.exitCode === null) {
      answered = await fetch(`http://127.0.0.1:${port}/healthz`).catch(() => undefined)
    }
    expect(fs.readFileSync(printed, 'utf8')).toMatch(/cell_sk_[0-9A-Za-z]{49}(.*\n)*.*curl /)
    expect(answered?.status).toBe(200)
  })

  test('has the key in the object store before anybody sees it', async () => {
    const place = new Workplace()
    const node = await place.serve()
    await node.stop('SIGKILL')
    fs.rmSync(place.dataDir, { recursive: true })
    const again = await place.serve()
    // What was lost is that the key had been shown: then another one is, of the same account.
    const key = again.key === '' ? node.key : again.key
    expect((await again.request('GET', '/v1/api-keys', undefined, key)).status).toBe(200)
    expect(await place.json<object[]>('keys', 'list')).toHaveLength(1)
  })

  test('keeps what it makes to its owner: folders 0700, files 0600', async () => {
    const place = new Workplace()
    const node = await place.serve()
    await node.stop()
    for (const folder of [place.dataDir, place.objects]) {
      expect(fs.statSync(folder).mode & 0o777).toBe(0o700)
      for (const file of filesBelow(folder)) {
        expect([file, fs.statSync(path.join(folder, file)).mode & 0o777]).toEqual([file, 0o600])
      }
    }
    expect(place.has('data', 'owner.json')).toBe(false)
    expect(place.has('data', 'admin.sock')).toBe(false)
  })

  test('takes CELLSTORE_ROOT_KEY in place of a new key, and does not print it', async () => {
    const key = makeApiKey(randomBytes)
    const place = new Workplace({ CELLSTORE_ROOT_KEY: key })
    const node = await place.serve()
    expect(node.stdout + node.stderr).not.toContain(key.slice(12))
    expect(node.stdout).toContain('$CELLSTORE_ROOT_KEY')
    for (const pid of [node.pid, ...descendantsOf(node.pid)]) {
      const environment = fs.readFileSync(`/proc/${pid}/environ`, 'utf8')
      expect(environment).toContain('PATH=')
      expect(environment).not.toContain(key.slice(12))
    }
    expect((await node.request('POST', '/v1/databases', {}, key)).status).toBe(201)
    await node.stop()

    const other = makeApiKey(randomBytes)
    place.env['CELLSTORE_ROOT_KEY'] = other
    const again = await place.serve()
    expect(again.stderr).toContain('CELLSTORE_ROOT_KEY is ignored')
    expect((await again.request('GET', '/v1/databases', undefined, other)).status).toBe(401)
    expect((await again.request('GET', '/v1/databases', undefined, key)).status).toBe(200)
  })

  test('refuses a root key that is none, without repeating it, and takes a good one next time', async () => {
    const key = makeApiKey(randomBytes)
    const place = new Workplace({ CELLSTORE_ROOT_KEY: `${key.slice(0, -1)}!` })
    const { code, stdout, stderr } = await place.run('serve', '--port', '0')
    expect({ code, stdout }).toEqual({ code: 2, stdout: '' })
    expect(stderr).toMatch(/CELLSTORE_ROOT_KEY.*keys generate/)
    expect(stderr).not.toContain(key.slice(12, 20))
    place.env['CELLSTORE_ROOT_KEY'] = key
    const node = await place.serve()
    expect((await node.request('GET', '/v1/databases', undefined, key)).status).toBe(200)
  })

  test('of a store that an embedding program has used ends none of its keys', async () => {
    const place = new Workplace()
    const store = await CellStore.openOrCreate(place.dataDir, {
      objectStore: pathToFileURL(place.objects).href,
    })
    const account = store.accounts.create()
    const { key } = store.apiKeys.create(account.id)
    store.createCell({ accountId: account.id })
    await store.close()
    const node = await place.serve()
    expect(node.stdout).not.toContain('cell_sk_')
    expect((await node.request('GET', '/v1/databases', undefined, key)).status).toBe(200)
  })

  test('of a store that an embedding program has made, and no account yet, prints a key', async () => {
    const place = new Workplace()
    const store = await CellStore.openOrCreate(place.dataDir, {
      objectStore: pathToFileURL(place.objects).href,
    })
    store.createCell()
    await store.close()
    const node = await place.serve()
    expect((await node.request('GET', '/v1/databases')).body).toEqual({ databases: [], next_cursor: null })
  })

  test('prints one JSON document with --json', async () => {
    const place = new Workplace()
    const node = await place.serve('--json')
    const document = JSON.parse(node.stdout)
    expect(document).toEqual({
      version: expect.any(String),
      address: node.address,
      console: `${node.address}/console`,
      store_id: expect.any(String),
      data_dir: place.dataDir,
      object_store: pathToFileURL(place.objects).href,
      backups: {
        snapshot_every_ms: 86_400_000,
        incremental_every_ms: 900_000,
        max_lag_ms: 10_000,
        keep: 'all:1d,hourly:3d,daily:30d,monthly:12mo',
        keep_tenant: 'all:1d,daily:30d',
        cells: 0,
        stored: 0,
        oldest_stored_at: null,
        changed: 0,
      },
      first_key: {
        id: expect.any(String),
        key: node.key,
        name: 'first key',
        hint: node.key.slice(0, 12),
        created_at: expect.any(String),
      },
    })
    await node.stop()
    expect(JSON.parse((await place.serve('--json')).stdout).first_key).toBeNull()
  })
})

describe('the settings', () => {
  test('come from the environment, and a flag wins', async () => {
    const place = new Workplace({ CELLSTORE_PORT: 'not-a-port', CELLSTORE_DATA_DIR: './elsewhere/data' })
    const node = await place.serve()
    expect(place.has('elsewhere', 'data', 'catalog.db')).toBe(true)
    expect(place.has('elsewhere', 'objects', 'store.json')).toBe(true)
    expect(place.has('data')).toBe(false)
    await node.stop()
  })

  test.each(['0', '1'])(
    'turn schedules, shipping and slow statements off, with %s workers',
    async (workers) => {
      const place = new Workplace({ CELLSTORE_MAX_LAG: 'off', CELLSTORE_DRILL_EVERY: 'never' })
      const schedules = ['--snapshot-every', 'never', '--incremental-every', 'never']
      const node = await place.serve('--json', '--workers', workers, ...schedules, '--slow', 'never')
      expect(JSON.parse(node.stdout).backups).toMatchObject({
        snapshot_every_ms: null,
        incremental_every_ms: null,
        max_lag_ms: null,
      })
      const { body: cell } = await node.request('POST', '/v1/databases', {})
      await node.request('POST', `/v1/databases/${cell['id']}/sql`, { sql: 'SELECT 1' })
      expect(await node.stop()).toEqual([0, null])
      expect(node.stderr).not.toContain('a statement was slow')
    },
  )

  test('that are empty count as not set', async () => {
    const place = new Workplace({ CELLSTORE_DATA_DIR: '', CELLSTORE_KEEP: '', CELLSTORE_DATADIR: '' })
    const node = await place.serve()
    expect(place.has('data', 'catalog.db')).toBe(true)
    expect(node.stderr).not.toMatch(/CELLSTORE_/)
  })

  test.each([
    ['serve', '--port', '0'],
    ['keys', 'list'],
    ['sql', UNKNOWN_CELL, 'SELECT 1'],
  ])('that are not known are refused with the nearest name, by %s', async (...command) => {
    const place = new Workplace({ CELLSTORE_DATADIR: 'x' })
    const { code, stdout, stderr } = await place.run(...command)
    expect({ code, stdout, stderr }).toEqual({
      code: 2,
      stdout: '',
      stderr: 'cellstore: CELLSTORE_DATADIR is not known: did you mean CELLSTORE_DATA_DIR?\n',
    })
    expect(fs.readdirSync(place.folder)).toEqual([])
    expect((await place.run('--help')).code).toBe(0)
  })

  test.each([
    ['CELLSTORE_PORT', '80a'],
    ['CELLSTORE_PORT', '65536'],
    ['CELLSTORE_BACKUP_SNAPSHOT_EVERY', '24'],
    ['CELLSTORE_BACKUP_INCREMENTAL_EVERY', '500ms'],
    ['CELLSTORE_KEEP', '30'],
    ['CELLSTORE_KEEP', 'daily:3'],
    ['CELLSTORE_DURABILITY', 'none'],
    ['CELLSTORE_LOG_LEVEL', 'all'],
  ])('%s=%s is refused by name, before anything is made', async (name, value) => {
    const place = new Workplace({ [name]: value })
    const { code, stdout, stderr } = await place.run(
      'serve',
      ...(name === 'CELLSTORE_PORT' ? [] : ['--port', '0']),
    )
    expect({ code, stdout }).toEqual({ code: 2, stdout: '' })
    expect(stderr).toMatch(new RegExp(`^cellstore: .*'${value}' from env '${name}'.*\n$`))
    expect(place.has('data')).toBe(false)
  })

  test('of automatic backups are taken: a changed cell is backed up on schedule', async () => {
    const place = new Workplace({ CELLSTORE_BACKUP_INCREMENTAL_EVERY: '1s', CELLSTORE_KEEP: 'all:1h' })
    const node = await place.serve()
    const { body } = await node.request('POST', '/v1/databases')
    await node.request('PUT', `/v1/databases/${body['id']}/kv/a`, { value: '1' })
    await until(async () => {
      const { body: listed } = await node.request('GET', `/v1/databases/${body['id']}/backups`)
      return (listed['backups'] as object[]).length > 0
    }, 'a backup is there')
  })

  test('say when other machines can connect', async () => {
    const node = await new Workplace().serve('--host', '0.0.0.0')
    expect(node.address).toMatch(/^http:\/\/0\.0\.0\.0:\d+$/)
    expect(node.stderr).toMatch(/"level":40.*put a proxy with TLS in front/)
    const local = await new Workplace().serve('--host', '127.0.0.1')
    expect(local.stderr).not.toContain('"level":40')
  })
})

describe('a start that can not be', () => {
  test('on a directory that a node owns names its pid', async () => {
    const place = new Workplace()
    const node = await place.serve()
    const { code, stdout, stderr } = await place.run('serve', '--port', '0')
    expect({ code, stdout }).toEqual({ code: 1, stdout: '' })
    expect(stderr).toMatch(new RegExp(`^cellstore: .*in use by process ${node.pid}\\b.*\n$`))
    expect((await node.request('GET', '/v1/databases')).status).toBe(200)
  })

  test('on a port in use says which, and shows no key', async () => {
    const taken = net.createServer().listen(0, '127.0.0.1')
    await new Promise((resolve) => taken.once('listening', resolve))
    onTestFinished(() => void taken.close())
    const { port } = taken.address() as net.AddressInfo
    const place = new Workplace()
    const { code, stdout, stderr } = await place.run('serve', '--port', String(port))
    expect({ code, stdout }).toEqual({ code: 2, stdout: '' })
    expect(stderr).toMatch(new RegExp(`^cellstore: Port ${port} on 127.0.0.1 is in use.*--port.*\n$`, 'm'))
    expect((await place.serve()).key).not.toBe('')
  })

  test('on a host that is none says so', async () => {
    const { code, stderr } = await new Workplace().run('serve', '--port', '0', '--host', '203.0.113.1')
    expect({ code, stderr }).toEqual({
      code: 2,
      stderr: expect.stringMatching(/203\.0\.113\.1 is not an address of this machine/),
    })
  })

  test.each([
    ['file:///proc/nope', /cannot be the folder \/proc\/nope: it does not exist, and it cannot be made/],
    ['s3://', /The S3 URL has no bucket/],
    ['s3:///prefix', /The S3 URL has no bucket/],
  ])('on the object store %s fails at once, and says why', async (url, why) => {
    const place = new Workplace()
    const { code, stdout, stderr } = await place.run('serve', '--port', '0', '--object-store', url)
    expect({ code, stdout, stderr }).toEqual({ code: 2, stdout: '', stderr: expect.stringMatching(why) })
    expect(fs.readdirSync(place.folder)).toEqual([])
  })

  test.each(['data/objects', 'data', '.'])(
    'with the object store %s in the data directory, or around it, is refused',
    async (folder) => {
      const place = new Workplace()
      const url = pathToFileURL(path.join(place.folder, folder)).href
      const { code, stdout, stderr } = await place.run('serve', '--port', '0', '--object-store', url)
      expect({ code, stdout }).toEqual({ code: 2, stdout: '' })
      expect(stderr).toMatch(/^cellstore: The (object store|data directory) .* lies inside .*\n$/)
      expect(fs.readdirSync(place.folder)).toEqual([])
    },
  )

  test('ends at once when it is asked to while it still waits for its object store', async () => {
    const place = new Workplace()
    fs.writeFileSync(place.objects, 'no folder')
    const child = place.spawn()
    let stderr = ''
    child.stderr?.on('data', (chunk) => {
      stderr += chunk
    })
    await until(() => stderr.includes('trying again'), 'it waits')
    child.kill('SIGTERM')
    await until(() => child.exitCode !== null, 'it ends', 20_000)
    expect(child.exitCode).toBe(0)
    expect(place.has('data', 'catalog.db')).toBe(false)
  })
})

describe('SIGTERM, SIGINT and SIGHUP', () => {
  test.each(['SIGTERM', 'SIGINT', 'SIGHUP'] as const)(
    '%s lets the request under way finish, and ends with 0',
    async (signal) => {
      const place = new Workplace()
      const node = await place.serve()
      const request = await SlowRequest.begin(node.address, node.key)
      node.child.kill(signal)
      await until(() => refuses(node.address), 'no new connection is taken')
      expect(node.child.exitCode).toBeNull()
      const { status, body } = await request.finish()
      expect(status).toBe(201)
      expect(await node.ended).toEqual(OK)

      const again = await place.serve()
      const { body: listed } = await again.request('GET', '/v1/databases', undefined, node.key)
      expect(listed['databases']).toEqual([
        {
          ...(body as object),
          status: 'ok',
          size_bytes: expect.any(Number),
          backed_up_to: null,
          last_stored_at: null,
          last_proven: null,
        },
      ])
    },
  )

  test('sent twice at once is one wish: the drain is not cut short', async () => {
    const node = await new Workplace().serve()
    const request = await SlowRequest.begin(node.address, node.key)
    for (let i = 0; i < 5; i++) node.child.kill(i % 2 === 0 ? 'SIGTERM' : 'SIGINT')
    await until(() => refuses(node.address), 'no new connection is taken')
    expect((await request.finish()).status).toBe(201)
    expect(await node.ended).toEqual(OK)
  })

  test('sent again a second later ends it at once, and not with 0', async () => {
    const node = await new Workplace().serve()
    await SlowRequest.begin(node.address, node.key)
    const asked = performance.now()
    await until(() => {
      node.child.kill('SIGTERM')
      return node.child.exitCode !== null
    }, 'it ends')
    expect(performance.now() - asked).toBeGreaterThan(1_000)
    expect(node.child.exitCode).toBe(1)
    expect(node.stderr).toContain('second signal')
  })

  test('a request that does not finish is cut at the deadline', async () => {
    const node = await new Workplace().serve('--drain', '1s')
    await SlowRequest.begin(node.address, node.key)
    expect(await node.stop()).toEqual(OK)
  })

  test('checkpoints are made: no log is left behind', async () => {
    const place = new Workplace()
    const node = await place.serve()
    const { body } = await node.request('POST', '/v1/databases')
    await node.request('PUT', `/v1/databases/${body['id']}/kv/a`, { value: '1' })
    await node.stop()
    expect(filesBelow(place.dataDir).filter((file) => /-(wal|shm)$/.test(file))).toEqual([])
  })

  test('that follow a start with `| head` do not end it: nobody needs to read what it prints', async () => {
    const node = await new Workplace().serve()
    node.child.stdout?.destroy()
    node.child.stderr?.destroy()
    expect((await node.request('GET', '/v1/databases')).status).toBe(200)
    expect(await node.stop()).toEqual(OK)
  })
})

function refuses(address: string): Promise<boolean> {
  const { hostname, port } = new URL(address)
  return new Promise((resolve) => {
    const socket = net.connect(Number(port), hostname)
    socket.once('connect', () => {
      socket.destroy()
      resolve(false)
    })
    socket.once('error', () => resolve(true))
  })
}

test.runIf(fs.existsSync('/proc/self/cmdline'))(
  'the processes of a node have one helper thread each, and the node is the process that was started',
  async () => {
    const node = await new Workplace().serve()
    const flagsOf = (pid: number) => fs.readFileSync(`/proc/${pid}/cmdline`, 'utf8').split('\0')
    const pids = [node.pid, ...descendantsOf(node.pid)]
    expect(pids.length).toBeGreaterThan(2)
    for (const pid of pids) expect(flagsOf(pid)).toContain(ONE_HELPER_THREAD)
    expect(flagsOf(node.pid)).toEqual(expect.arrayContaining([NEW_SPACE_OF_NODE, HEAP_GROWTH_OF_NODE]))
    expect(await node.stop()).toEqual(OK)
  },
)
