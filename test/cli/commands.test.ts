import { execFileSync, spawn } from 'node:child_process'
import fs from 'node:fs'
import path from 'node:path'
import { beforeEach, describe, expect, test } from 'vitest'
import { parseApiKey } from '../../src/auth/api-key.ts'
import { systemClock } from '../../src/base/clock.ts'
import { StorePaths } from '../../src/base/files/store-paths.ts'
import { silentLog } from '../../src/base/log.ts'
import { DirectoryLock } from '../../src/catalog/directory-lock.ts'
import type { StoreFlags } from '../../src/cli/flags.ts'
import { connectOwner } from '../../src/cli/owner/connect.ts'
import { ENTRY, Workplace } from '../support/cli/workplace.ts'
import { shellEnv } from '../support/package/run.ts'
import { rejectedBy } from '../support/thrown.ts'
import { until } from '../support/until.ts'

/** Runs a command on a terminal of its own (util-linux). */
const SCRIPT = '/usr/bin/script'
const UUID = /^[0-9a-f]{8}-([0-9a-f]{4}-){3}[0-9a-f]{12}$/
const TIME = expect.stringMatching(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/)
const NUMBER = expect.any(Number)
const UNKNOWN = '00000000-0000-4000-8000-000000000000'

describe('keys generate', () => {
  test('prints a key with a valid checksum, another one each time, and needs no store', async () => {
    const place = new Workplace()
    const keys = [
      await place.text('keys', 'generate'),
      (await place.json('keys', 'generate'))['key'] as string,
    ]
    for (const key of keys) expect(parseApiKey(key)).toBe(key)
    expect(keys[0]).not.toBe(keys[1])
    expect(fs.readdirSync(place.folder)).toEqual([])
  })
})

describe('on a running node', () => {
  let place: Workplace

  beforeEach(async () => {
    place = new Workplace()
    // With shipping, versions that the node makes on its own would be listed too.
    await place.serve('--max-lag', 'off')
  })

  test('--json prints one document, with the names of the HTTP contract', async () => {
    const key = await place.json('keys', 'create', '--name', 'laptop')
    expect(key).toEqual({
      id: expect.stringMatching(UUID),
      key: expect.stringMatching(/^cell_sk_[0-9A-Za-z]{49}$/),
      name: 'laptop',
      hint: (key['key'] as string).slice(0, 12),
      created_at: TIME,
      access: 'write',
      cell_ids: null,
      surface: 'all',
      expires_at: null,
      account_id: expect.stringMatching(UUID),
    })
    const account_id = key['account_id']
    expect(await place.json('keys', 'list')).toEqual([
      {
        id: key['id'],
        name: 'laptop',
        hint: key['hint'],
        created_at: key['created_at'],
        last_used_at: null,
        access: 'write',
        cell_ids: null,
        surface: 'all',
        expires_at: null,
        account_id,
      },
      expect.objectContaining({ name: 'first key', account_id }),
    ])
    const cell = await place.json('cells', 'create', '--name', 'acme')
    const made = { created_at: TIME, backed_up_to: null, last_stored_at: null, last_proven: null, account_id }
    expect(cell).toEqual({ id: expect.stringMatching(UUID), name: 'acme', ...made })
    const soon = expect.toBeOneOf([null, TIME])
    const listed = { ...cell, status: 'ok', size_bytes: NUMBER, backed_up_to: soon, last_stored_at: soon }
    expect(await place.json('cells', 'list')).toEqual({ databases: [listed], next_cursor: null })

    const id = cell['id'] as string
    expect(await place.json('sql', id, 'CREATE TABLE t (a, b, c)')).toMatchObject({ columns: [], rows: [] })
    await place.text('sql', id, 'INSERT INTO t VALUES (?, ?, ?)', '-42', 'null', 'text')
    expect(await place.json('sql', id, 'SELECT *, typeof(a) AS t FROM t')).toEqual({
      columns: ['a', 'b', 'c', 't'],
      rows: [{ a: -42, b: null, c: 'text', t: 'integer' }],
      row_count: 1,
      changes: 0,
      last_insert_rowid: null,
      duration_ms: NUMBER,
    })
    expect(
      await place.json('sql', id, 'SELECT :n AS n', '--json-params', '{"n": 9223372036854775807}'),
    ).toMatchObject({
      rows: [{ n: '9223372036854775807' }],
    })

    const snapshot = await place.json('backup', id)
    const stored = {
      size_bytes: NUMBER,
      sha256: expect.stringMatching(/^[0-9a-f]{64}$/),
      created_at: TIME,
      duration_ms: NUMBER,
    }
    expect(snapshot).toEqual({
      version: expect.stringMatching(/^snapshots\/.*Z$/),
      kind: 'snapshot',
      ...stored,
    })
    await place.text('sql', id, 'DELETE FROM t')
    const base_version = snapshot['version'] as string
    const incremental = await place.json('backup', id, '--incremental')
    expect(incremental).toEqual({ version: expect.any(String), kind: 'incremental', ...stored, base_version })
    expect(await place.json('backups', 'list', id)).toEqual({
      backups: [
        {
          version: incremental['version'],
          kind: 'incremental',
          size_bytes: NUMBER,
          created_at: TIME,
          base_version,
        },
        { version: base_version, kind: 'snapshot', size_bytes: NUMBER, created_at: TIME, base_version: null },
      ],
      next_cursor: null,
      // Nothing is shipped: only the versions' own times can be restored.
      restorable: [
        { from: TIME, to: TIME },
        { from: TIME, to: TIME },
      ],
    })
    expect(await place.json('restore', id, '--version', base_version)).toEqual({
      restored: true,
      version: base_version,
      kind: 'snapshot',
      size_bytes: NUMBER,
      duration_ms: NUMBER,
      timestamp: TIME,
      replaced_at: null,
    })
    expect(await place.json('sql', id, 'SELECT count(*) AS n FROM t')).toMatchObject({ rows: [{ n: 1 }] })
    expect(await place.json('cells', 'delete', id)).toEqual({ id, deleted: true })
    expect(await place.json('restore', id)).toMatchObject({ restored: true })
    expect(await place.json('sql', id, 'SELECT count(*) AS n FROM t')).toMatchObject({ rows: [{ n: 1 }] })
    expect(await place.json('keys', 'revoke', key['id'] as string)).toEqual({
      id: key['id'],
      revoked: true,
      revoked_at: TIME,
    })
  })

  test('people get tables, and what a script can take: a key, an id', async () => {
    const key = await place.text('keys', 'create')
    expect(parseApiKey(key)).toBe(key)
    const cell = await place.text('cells', 'create', '--name', 'bell\u0007')
    expect(cell).toMatch(UUID)
    const [heading, row] = (await place.text('cells', 'list')).split('\n')
    expect(heading).toMatch(/^ID +NAME +SIZE +CREATED +BACKED UP TO +LAST PROVEN +ACCOUNT$/)
    expect(row).toMatch(new RegExp(`^${cell} {2}bell\\\\x07 {2}`))
    expect(await place.text('keys', 'list')).toMatch(/^ID +NAME +HINT .*\n.*\n.*first key/)
    expect(await place.text('sql', cell, 'SELECT 1 AS a, NULL AS b')).toMatch(/^a {2}b\n1 {2}NULL\n1 row, /)
    expect(await place.text('sql', cell, 'CREATE TABLE t (a)')).toMatch(/^0 rows changed, /)
    expect(await place.text('backup', cell)).toMatch(/^snapshots\/.*Z\nsnapshot, .*B in \d/)
    expect(await place.text('backups', 'list', cell)).toMatch(/^VERSION +KIND +SIZE +CREATED\nsnapshots\//)
    expect(await place.text('restore', cell)).toMatch(/^Restored snapshots\/.*\.$/)
    expect(await place.text('cells', 'delete', cell)).toBe(
      `Deleted ${cell}. Its backups, if any, stay: \`cellstore restore ${cell}\` brings it back.`,
    )
  })

  test('an error is {code, message} with --json, and the exit code is 1', async () => {
    expect(await place.failure('sql', UNKNOWN, 'SELECT 1')).toEqual({
      exit: 1,
      code: 'cell_not_found',
      message: expect.any(String),
    })
    expect(await place.failure('keys', 'revoke', UNKNOWN)).toMatchObject({
      exit: 1,
      code: 'api_key_not_found',
    })
    expect(await place.failure('restore', UNKNOWN)).toMatchObject({
      exit: 1,
      code: 'cell_not_found',
    })
    expect(await place.failure('cells', 'create', '--account', 'x')).toMatchObject({
      exit: 1,
      code: 'invalid_request',
    })
    await place.text('keys', 'create', '--new-account')
    const accounts = (await place.json<{ account_id: string }[]>('keys', 'list')).map(
      ({ account_id }) => account_id,
    )
    expect(new Set(accounts).size).toBe(2)
    const { message } = await place.failure('keys', 'create')
    for (const account of accounts) expect(message).toContain(account)
    expect(message).toMatch(/has 2 accounts.*--account, or make one with --new-account\./)
    expect(await place.json('cells', 'create', '--account', accounts[0] as string)).toMatchObject({
      account_id: accounts[0],
    })
  })
})

test('on a stopped node the same commands open the store themselves', async () => {
  const place = new Workplace()
  await (await place.serve()).stop()
  const { account_id } = await place.json('keys', 'create', '--new-account', '--name', 'laptop')
  const cell = await place.json('cells', 'create', '--account', account_id as string)
  const made = { name: null, created_at: TIME, account_id }
  expect(cell).toEqual({
    id: expect.stringMatching(UUID),
    ...made,
    backed_up_to: null,
    last_stored_at: null,
    last_proven: null,
  })
  const id = cell['id'] as string
  await place.text('sql', id, 'CREATE TABLE t AS SELECT ? AS n', '42')
  const { version } = await place.json('backup', id)
  await place.text('sql', id, 'DELETE FROM t')
  expect(await place.json('restore', id)).toMatchObject({ restored: true, version })
  expect(await place.json('sql', id, 'SELECT * FROM t')).toMatchObject({ rows: [{ n: 42 }] })
  const node = await place.serve()
  expect(node.stdout).toContain('1 cell: 1 stored')
  const stored = { backed_up_to: TIME, last_stored_at: TIME, last_proven: null }
  const databases = [{ ...cell, status: 'ok', size_bytes: NUMBER, ...stored }]
  expect(await place.json('cells', 'list')).toEqual({ databases, next_cursor: null })
  expect(await node.stop()).toEqual([0, null])
})

test('a command on a stopped node says that the next one stores what it has changed in cells', async () => {
  const place = new Workplace()
  await (await place.serve()).stop()
  const said = async (...args: string[]) => {
    const { code, stderr } = await place.run(...args)
    expect(code).toBe(0)
    return stderr
  }
  const cell = await place.text('cells', 'create')
  // The catalog is stored before the command ends.
  expect(await said('cells', 'rename', cell, 'acme')).toBe('')
  const one = /^One cell has changes that are on this machine only\. .*cellstore serve.*cellstore backup/
  expect(await said('sql', cell, 'CREATE TABLE t (n)')).toMatch(one)
  expect(await said('sql', cell, 'INSERT INTO t VALUES (1)')).toMatch(one)
  expect(await said('sql', cell, 'SELECT * FROM t')).toBe('')
  expect(await said('sql', cell, 'INSERT INTO t VALUES (2)', '--json')).toBe('')
  expect(await said('backup', cell)).not.toContain('on this machine only')
  await place.text('sql', cell, 'INSERT INTO t VALUES (3)')
  const imported = await place.json<{ id: string }>('cells', 'create', '--from', cell)
  expect(await said('sql', imported.id, 'DELETE FROM t')).toMatch(/^2 cells have changes/)
})

describe('backups', () => {
  async function withCell(place: Workplace, ...flags: string[]): Promise<{ cell: string; version: string }> {
    const cell = await place.text('cells', 'create', ...flags)
    const { version } = await place.json<{ version: string }>('backup', cell)
    return { cell, version }
  }

  test('are proven, one or all, and damage fails the command and names the object; on a running node and a stopped one', async () => {
    const place = new Workplace()
    // Otherwise the node would store the cell that has no backup.
    const node = await place.serve('--max-lag', 'off')
    const { cell, version } = await withCell(place, '--name', 'bell\u0007')
    const named = `${cell} \\(bell\\\\x07\\)`
    expect(await place.text('backups', 'verify', cell, '--deep')).toMatch(
      new RegExp(
        `^TABLE +ROWS\n_cell_kv +0\n_cell_meta +1\n${named}: proven ${version} \\(1 object, .*, 2 tables, 1 row, `,
      ),
    )
    const other = await place.text('cells', 'create')
    expect(await place.text('backups', 'verify', '--all')).toMatch(
      new RegExp(`${other}: no backup\n2 proven, 0 failed, 1 without a backup$`),
    )
    expect(await place.failure('backups', 'verify')).toMatchObject({ exit: 2, code: 'invalid_request' })
    const file = path.join(place.objects, version)
    fs.chmodSync(file, 0o600)
    fs.truncateSync(file, 200)
    const failure = { exit: 1, code: 'backup_corrupt' }
    const all = await place.run('backups', 'verify', '--all')
    expect(all).toMatchObject({ code: 1, stderr: expect.stringContaining('1 of 3 could not be proven.') })
    expect(all.stdout).toMatch(
      new RegExp(`${named}: FAILED: .*${version}.*\n[^]*1 proven, 1 failed, 1 without a backup\n$`),
    )
    // One document, as of every command: its result says what failed.
    const asJson = await place.run('backups', 'verify', '--all', '--json')
    expect(asJson).toMatchObject({ code: 1, stderr: '' })
    expect(JSON.parse(asJson.stdout)).toMatchObject({
      proven: 1,
      failed: 1,
      without_backup: 1,
      databases: expect.arrayContaining([
        expect.objectContaining({
          id: cell,
          name: 'bell\u0007',
          proven: false,
          code: 'backup_corrupt',
          version,
        }),
      ]),
    })
    const listed = await place.text('backups', 'prune', cell, '--dry-run')
    expect(listed).toMatch(new RegExp(`${version} .* in the current chain; cannot be restored\n`))
    await node.stop()
    expect(await place.failure('backups', 'verify', cell)).toMatchObject({
      ...failure,
      message: expect.stringContaining(version),
    })
  })

  test('are pruned by a plan, pinned, and purged; on a running node and on a stopped one', async () => {
    const place = new Workplace({ CELLSTORE_KEEP: 'all:2d' })
    const node = await place.serve()
    const { cell, version } = await withCell(place)
    // With its workers: who asked for the version is in its manifest.
    await node.request('POST', `/v1/databases/${await ownCell(node)}/backup`)
    expect(await place.text('backups', 'prune', cell, '--dry-run')).toMatch(
      /^VERSION +SIZE +ORIGIN +WHAT +WHY\n.* owner +stays +in the current chain\n.*: 1 stay, 0 marked, 0 to remove \(all:2d\)$/,
    )
    expect(await place.text('backups', 'pin', cell, version)).toBe(`${version} stays.`)
    expect(await place.text('backups', 'plan', cell)).toBe("default: the store's plan")
    expect(await place.text('backups', 'plan', cell, 'all:7d')).toBe('all:7d')
    expect(await place.failure('backups', 'plan', cell, 'all:7x')).toMatchObject({ exit: 2 })
    const all = await place.json<{ databases: { plan: string; versions: { origin: string }[] }[] }>(
      'backups',
      'prune',
      '--all',
    )
    expect(all.databases.map(({ plan }) => plan)).toEqual(['all:7d', 'all:2d'])
    expect(all.databases[1]?.versions).toMatchObject([{ origin: 'tenant' }])
    expect(await place.failure('backups', 'prune')).toMatchObject({ exit: 2, code: 'invalid_request' })
    expect(await place.failure('backups', 'prune', cell, '--all')).toMatchObject({ code: 'invalid_request' })
    expect(await place.failure('backups', 'prune', cell, '--keep', '30')).toMatchObject({ exit: 2 })
    await node.stop()
    const { databases } = await place.json<{ databases: object[] }>('backups', 'prune', cell)
    expect(databases).toMatchObject([{ id: cell, versions: [{ version, reason: 'pinned' }] }])
    expect(await place.text('backups', 'unpin', cell, version)).toMatch(/left to the plan\.$/)
  })

  test('of a deleted cell are purged only once its id is given again', async () => {
    const place = new Workplace()
    await (await place.serve()).stop()
    const { cell } = await withCell(place)
    await place.text('cells', 'delete', cell)
    const purge = ['backups', 'purge', cell]
    expect((await place.failure(...purge)).message).toContain('--yes-delete')
    expect((await place.failure(...purge, '--yes-delete', UNKNOWN)).message).toContain('not the id')
    expect(place.has('objects', 'snapshots', cell)).toBe(true)
    expect(await place.text(...purge, '--yes-delete', cell)).toMatch(/^Removed 1 object of /)
    expect(place.has('objects', 'snapshots', cell)).toBe(false)
  })

  async function ownCell(node: Awaited<ReturnType<Workplace['serve']>>): Promise<string> {
    const { body } = await node.request('POST', '/v1/databases')
    return body['id'] as string
  }
})

describe('reaching the store', () => {
  test('a key that a command makes on a running node is good at once, and one that it revokes is bad at once', async () => {
    const place = new Workplace()
    const node = await place.serve()
    const { id, key } = await place.json<{ id: string; key: string }>('keys', 'create')
    expect((await node.request('GET', '/v1/databases', undefined, key)).status).toBe(200)
    await place.text('keys', 'revoke', id)
    expect((await node.request('GET', '/v1/databases', undefined, key)).status).toBe(401)
  })

  test('what a killed node left behind is no hindrance', async () => {
    const place = new Workplace()
    await (await place.serve()).stop('SIGKILL')
    expect(place.has('data', 'admin.sock')).toBe(true)
    expect(await place.json<object[]>('keys', 'list')).toHaveLength(1)
    const again = await place.serve()
    expect(await place.json<object[]>('keys', 'list')).toHaveLength(1)
    expect(place.readOwner().pid).toBe(again.pid)
  })

  test('a data directory whose path is too long for a socket has it elsewhere', async () => {
    const place = new Workplace({ CELLSTORE_DATA_DIR: path.join('x'.repeat(100), 'data') })
    const node = await place.serve()
    const { socket } = JSON.parse(
      fs.readFileSync(path.join(place.folder, 'x'.repeat(100), 'data', 'owner.json'), 'utf8'),
    ) as { socket: string }
    expect(socket).not.toContain('x'.repeat(100))
    expect(fs.statSync(socket).mode & 0o777).toBe(0o600)
    expect(fs.statSync(path.dirname(socket)).mode & 0o777).toBe(0o700)
    expect(await place.json<object[]>('keys', 'list')).toHaveLength(1)
    await node.stop()
    expect(fs.existsSync(path.dirname(socket))).toBe(false)
  })

  test('where there is no store none is made', async () => {
    const place = new Workplace()
    expect(await place.failure('keys', 'list')).toMatchObject({
      exit: 1,
      code: 'store_not_found',
      message: expect.stringContaining('cellstore serve'),
    })
    expect(await place.failure('keys', 'create', '--new-account')).toMatchObject({ code: 'store_not_found' })
    expect(fs.readdirSync(place.folder)).toEqual([])
  })

  test('an owner that takes no commands is named', async () => {
    const place = new Workplace()
    await (await place.serve()).stop()
    const lock = DirectoryLock.acquire(new StorePaths(place.dataDir))
    try {
      let now = 0
      const clock = { ...systemClock, monotonic: () => (now += 1_000) }
      const flags = { dataDir: place.dataDir } as StoreFlags
      const { code, message } = await rejectedBy(connectOwner(flags, clock, silentLog))
      expect(code).toBe('store_locked')
      expect(message).toMatch(new RegExp(`process ${process.pid}\\b.*takes no commands`))
    } finally {
      lock.release()
    }
  })

  test('a command that meets a node that is just stopping waits for it', async () => {
    const place = new Workplace()
    await (await place.serve()).stop()
    const lock = DirectoryLock.acquire(new StorePaths(place.dataDir))
    const listed = place.json<object[]>('keys', 'list')
    const opened = path.join(place.dataDir, 'lock.db')
    await until(() => openFiles().some((file) => file === opened), 'the command has found the lock')
    lock.release()
    expect(await listed).toHaveLength(1)
  })

  test('with nothing but the object store, the server brings it back, and no command does', async () => {
    const place = new Workplace()
    const node = await place.serve()
    const cell = await place.text('cells', 'create')
    await place.text('sql', cell, 'CREATE TABLE t AS SELECT 7 AS n')
    await place.text('backup', cell)
    await node.stop('SIGKILL')
    fs.rmSync(place.dataDir, { recursive: true })
    expect(await place.failure('sql', cell, 'SELECT n FROM t')).toMatchObject({
      exit: 1,
      code: 'store_not_found',
      message: expect.stringContaining('`cellstore serve`'),
    })
    expect(place.has('data')).toBe(false)
    await place.serve()
    expect(await place.json('sql', cell, 'SELECT n FROM t')).toMatchObject({ rows: [{ n: 7 }] })
  })
})

describe('a person at a terminal', () => {
  test.skipIf(!fs.existsSync(SCRIPT))('sees progress with bytes and rate, and with --json none', async () => {
    const place = new Workplace()
    await (await place.serve()).stop()
    const cell = await place.text('cells', 'create')
    await place.text('sql', cell, 'CREATE TABLE t AS SELECT randomblob(500000) AS b')
    const backup = onTerminal(place, ['backup', cell])
    expect(backup).toMatch(/reading {2}\[.*\] 100% {2}\d+ KiB of \d+ KiB {2}.*B\/s/)
    expect(backup).toMatch(/storing {2}\[.*\] 100%/)
    expect(onTerminal(place, ['restore', cell])).toMatch(/fetching \[.*\] 100%/)
    expect(JSON.parse(onTerminal(place, ['backup', cell, '--json']))).toMatchObject({ kind: 'snapshot' })
  })
})

test('a reader that has seen enough is no failure', async () => {
  const place = new Workplace()
  await (await place.serve()).stop()
  const child = spawn(process.execPath, [ENTRY, 'keys', 'list'], {
    cwd: place.folder,
    env: shellEnv(),
    stdio: 'pipe',
  })
  child.stdout.destroy()
  let stderr = ''
  child.stderr.on('data', (chunk) => {
    stderr += chunk
  })
  await until(() => child.exitCode !== null, 'it ends')
  expect({ code: child.exitCode, stderr }).toEqual({ code: 0, stderr: '' })
})

/** Runs a command with a terminal for its output. @returns what a person sees */
function onTerminal(place: Workplace, args: string[]): string {
  const command = [process.execPath, ENTRY, ...args].map((word) => `'${word}'`).join(' ')
  const env = { ...shellEnv(), TERM: 'xterm' }
  return execFileSync(SCRIPT, ['-qec', command, '/dev/null'], { cwd: place.folder, env, encoding: 'utf8' })
}

/** What the processes of this user have open. */
function openFiles(): string[] {
  return fs.readdirSync('/proc').flatMap((pid) => {
    if (!/^\d+$/.test(pid) || Number(pid) === process.pid) return []
    try {
      return fs.readdirSync(`/proc/${pid}/fd`).map((fd) => fs.readlinkSync(`/proc/${pid}/fd/${fd}`))
    } catch {
      return []
    }
  })
}
