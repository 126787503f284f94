import { beforeEach, describe, expect, test } from 'vitest'
import type { BackupOptions, BackupProgressEvent } from '../../../src/backup/versions/backup-types.ts'
import type { OwnerClient } from '../../../src/cli/owner/owner-client.ts'
import type { CellStore } from '../../../src/store/cell-store.ts'
import { TIMES_OF_TWO_VERSIONS } from '../../support/backup/restorable-times.ts'
import { rejectedBy } from '../../support/thrown.ts'

/** A store, and a client of its owner. */
export interface ClientUnderTest {
  client: OwnerClient
  /** The same store, to see what a command did. */
  store: CellStore
}

const UNKNOWN = '00000000-0000-4000-8000-000000000000'
const TIME = expect.stringMatching(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/)
const UUID = expect.stringMatching(/^[0-9a-f]{8}-([0-9a-f]{4}-){3}[0-9a-f]{12}$/)

/** The promises of `OwnerClient`, as tests: the same answers from a node and from a store that is open in this process. */
export function ownerClientContract(name: string, make: () => Promise<ClientUnderTest>): void {
  describe(`${name} keeps the contract of the owner's client`, () => {
    let client: OwnerClient
    let store: CellStore

    beforeEach(async () => {
      const subject = await make()
      client = subject.client
      store = subject.store
    })

    const newCell = async () => (await client.createCell({})).id
    const newAccount = async () => (await client.createKey({ newAccount: true })).account_id

    describe('keys', () => {
      test('belong to the only account there is, if none is named', async () => {
        const account = await newAccount()
        const created = await client.createKey({ name: 'laptop' })
        expect(created).toEqual({
          id: UUID,
          key: expect.stringMatching(/^cell_sk_[0-9A-Za-z]{49}$/),
          name: 'laptop',
          hint: created.key.slice(0, 12),
          created_at: TIME,
          access: 'write',
          cell_ids: null,
          surface: 'all',
          expires_at: null,
          account_id: account,
        })
        expect(store.apiKeys.verify(created.key)).toMatchObject({ keyId: created.id, accountId: account })
      })

      test('need an account to be named where there are several, and the error names them', async () => {
        const accounts = [await newAccount(), await newAccount()]
        const error = await rejectedBy(client.createKey({}))
        expect(error).toMatchObject({ code: 'invalid_request', details: { field: 'account' } })
        for (const account of accounts) expect(error.message).toContain(account)
        expect((await client.createKey({ account: accounts[1] })).account_id).toBe(accounts[1])
      })

      test('are refused for an account that is not there, or not yet, and for two at once', async () => {
        expect(await rejectedBy(client.createKey({}))).toMatchObject({ code: 'invalid_request' })
        const account = await newAccount()
        expect((await rejectedBy(client.createKey({ account: UNKNOWN }))).message).toContain(account)
        expect(await rejectedBy(client.createKey({ account, newAccount: true }))).toMatchObject({
          code: 'invalid_request',
          details: { field: 'account' },
        })
        expect(store.accounts.list()).toHaveLength(1)
      })

      test.each(['x'.repeat(256), '\ud800'])(
        'are refused with a name like %j, and nothing is made',
        async (bad) => {
          const error = await rejectedBy(client.createKey({ newAccount: true, name: bad }))
          expect(error).toMatchObject({ code: 'invalid_request', details: { field: 'name' } })
          expect(store.accounts.list()).toEqual([])
        },
      )

      test('are listed, of all accounts or of one, without the key', async () => {
        const first = await client.createKey({ newAccount: true, name: 'one' })
        const second = await client.createKey({ newAccount: true })
        const { key: _, ...rest } = first
        const shown = { ...rest, last_used_at: null }
        expect(await client.listKeys({})).toHaveLength(2)
        expect(await client.listKeys({ account: first.account_id })).toEqual([shown])
        expect((await client.listKeys({})).map(({ id }) => id)).toContain(second.id)
        expect(await rejectedBy(client.listKeys({ account: UNKNOWN }))).toMatchObject({
          code: 'invalid_request',
        })
      })

      test('are refused from the next request on once revoked, and revoking again answers the same', async () => {
        const { id, key } = await client.createKey({ newAccount: true })
        const revoked = await client.revokeKey({ id })
        expect(revoked).toEqual({ id, revoked: true, revoked_at: TIME })
        expect(() => store.apiKeys.verify(key)).toThrow()
        expect(await client.revokeKey({ id })).toEqual(revoked)
        expect(await client.listKeys({})).toEqual([])
        expect(await rejectedBy(client.revokeKey({ id: UNKNOWN }))).toMatchObject({
          code: 'api_key_not_found',
        })
      })
    })

    describe('scopes and rotation', () => {
      test('a key has the scope that it was asked for', async () => {
        await newAccount()
        const scope = { access: 'read' as const, surface: 'kv' as const, cell_ids: [await newCell()] }
        const created = await client.createKey({ ...scope, expires_at: '2999-01-01T00:00:00Z' })
        expect(created).toMatchObject({ ...scope, expires_at: '2999-01-01T00:00:00.000Z' })
        const { access, surface, cellIds } = store.apiKeys.verify(created.key).scope
        expect({ access, surface, cell_ids: cellIds }).toEqual(scope)
      })

      test('a bad scope makes no key and no account, and the error names the field of the body', async () => {
        for (const [input, field] of [
          [{ access: 'all' }, 'access'],
          [{ access: 'owner', surface: 'kv' }, 'access'],
          [{ expires_at: '2020-01-01T00:00:00Z' }, 'expires_at'],
          [{ expires_at: 'soon' }, 'expires_at'],
          [{ cell_ids: [UNKNOWN] }, 'cell_ids'],
        ] as const) {
          const error = await rejectedBy(client.createKey({ newAccount: true, ...input } as object))
          expect(error).toMatchObject({ code: 'invalid_request', details: { field } })
        }
        expect(store.accounts.list()).toEqual([])
      })

      test('a rotation gives another key and ends the old one', async () => {
        const old = await client.createKey({ newAccount: true, name: 'ci' })
        const rotated = await client.rotateKey({ id: old.id, grace_ms: 0 })
        expect(rotated).toMatchObject({ name: 'ci', account_id: old.account_id, replaces: { id: old.id } })
        expect(() => store.apiKeys.verify(old.key)).toThrow()
        expect(store.apiKeys.verify(rotated.key).keyId).toBe(rotated.id)
        for (const id of [old.id, UNKNOWN])
          expect(await rejectedBy(client.rotateKey({ id }))).toMatchObject({ code: 'api_key_not_found' })
      })
    })

    describe('accounts', () => {
      test('are made, listed, suspended, resumed and bounded', async () => {
        const made = await client.createAccount({ name: 'acme' })
        const none = { cells_max: null, api_keys_max: null, bytes_max: null, requests_per_second: null }
        expect(made).toEqual({ id: UUID, name: 'acme', created_at: TIME, suspended_at: null, quotas: none })
        expect(await client.listAccounts({})).toEqual({ accounts: [made], next_cursor: null })
        const { id } = made
        expect(await client.setSuspended({ id, suspended: true })).toEqual({ ...made, suspended_at: TIME })
        expect(await client.setSuspended({ id, suspended: false })).toEqual(made)
        const quotas = { ...none, cells_max: 1 }
        expect(await client.setQuotas({ id, quotas })).toEqual({ ...made, quotas })
        expect(await client.account({ id })).toEqual({ ...made, quotas })
        await client.createCell({ account: id })
        expect(await rejectedBy(client.createCell({ account: id }))).toMatchObject({ code: 'quota_exceeded' })
        expect(await rejectedBy(client.account({ id: UNKNOWN }))).toMatchObject({ code: 'account_not_found' })
      })
    })

    describe('cells', () => {
      test('are made, listed page by page, and deleted', async () => {
        const account = await newAccount()
        const cell = await client.createCell({ name: 'acme' })
        expect(cell).toEqual({
          id: UUID,
          name: 'acme',
          created_at: TIME,
          backed_up_to: null,
          last_stored_at: null,
          last_proven: null,
          account_id: account,
        })
        const listed = {
          databases: [{ ...cell, status: 'ok', size_bytes: expect.any(Number) }],
          next_cursor: null,
        }
        expect(await client.listCells({})).toEqual(listed)
        expect(await client.listCells({ account })).toEqual(listed)

        for (let i = 0; i < 100; i++) store.createCell({ accountId: account })
        const first = await client.listCells({})
        expect(first.databases).toHaveLength(100)
        const rest = await client.listCells({ cursor: first.next_cursor as string })
        expect(rest).toEqual({ databases: [expect.objectContaining({ id: UUID })], next_cursor: null })

        expect(await client.deleteCell({ cell: cell.id })).toEqual({ id: cell.id, deleted: true })
        expect(await rejectedBy(client.deleteCell({ cell: cell.id }))).toMatchObject({
          code: 'cell_not_found',
        })
      })

      test('that belong to nobody are listed too', async () => {
        const { id } = store.createCell()
        expect((await client.listCells({})).databases).toEqual([
          expect.objectContaining({ id, account_id: null }),
        ])
      })

      test('need an account', async () => {
        expect(await rejectedBy(client.createCell({}))).toMatchObject({ code: 'invalid_request' })
        expect(await rejectedBy(client.createCell({ account: UNKNOWN }))).toMatchObject({
          code: 'invalid_request',
        })
      })
    })

    describe('sql', () => {
      test('runs a statement with parameters of every kind, and loses nothing on the way', async () => {
        await newAccount()
        const cell = await newCell()
        await client.sql({ cell, sql: 'CREATE TABLE t (a, b, c, d, e)' })
        const params = [
          { type: 'integer', value: '9223372036854775807' },
          null,
          'line\nbreak \u2028 \u0000 "quoted" \\ ✓',
          1.5,
          { type: 'blob', base64: 'AAECAw==' },
        ]
        const inserted = await client.sql({ cell, sql: 'INSERT INTO t VALUES (?, ?, ?, ?, ?)', params })
        expect(inserted).toMatchObject({
          columns: [],
          rows: [],
          row_count: 0,
          changes: 1,
          last_insert_rowid: 1,
        })
        const selected = await client.sql({ cell, sql: 'SELECT *, typeof(a) AS t FROM t' })
        expect(selected).toEqual({
          columns: ['a', 'b', 'c', 'd', 'e', 't'],
          rows: [{ a: '9223372036854775807', b: null, c: params[2], d: 1.5, e: params[4], t: 'integer' }],
          row_count: 1,
          changes: 0,
          last_insert_rowid: null,
          duration_ms: expect.any(Number),
        })
      })

      test('takes named parameters', async () => {
        await newAccount()
        const answer = await client.sql({ cell: await newCell(), sql: 'SELECT :a AS a', params: { a: 1 } })
        expect(answer.rows).toEqual([{ a: 1 }])
      })

      test('runs a batch as one, and nothing once it is given up', async () => {
        await newAccount()
        const cell = await newCell()
        const statements = (...texts: string[]) => ({ cell, operations: texts.map((sql) => ({ sql })) })
        const results = await client.batch(statements('CREATE TABLE t (a)', 'INSERT INTO t VALUES (1)'))
        expect(results).toMatchObject([{ columns: [] }, { changes: 1 }])
        const failed = client.batch(statements('DELETE FROM t', 'SELECT b FROM t'))
        expect(await rejectedBy(failed)).toMatchObject({ code: 'sql_error', details: { index: 1 } })
        const signal = AbortSignal.abort()
        await expect(client.sql({ cell, sql: 'DROP TABLE t' }, { signal })).rejects.toThrow()
        expect((await client.sql({ cell, sql: 'SELECT a FROM t' })).rows).toEqual([{ a: 1 }])
      })

      test('takes an answer of megabytes', async () => {
        await newAccount()
        const sql = "SELECT printf('%.*c', 3000000, 'x') AS x"
        const { rows } = await client.sql({ cell: await newCell(), sql })
        expect((rows as { x: string }[])[0]?.x).toHaveLength(3_000_000)
      })

      test.each([
        ['SELECT * FROM nowhere', undefined, 'sql_error'],
        ['ATTACH DATABASE ? AS other', ['x'], 'statement_not_allowed'],
        ['SELECT ?', [], 'param_count_mismatch'],
        ['SELECT ?', [{ type: 'integer', value: 'x' }], 'invalid_parameter'],
        ['SELECT 1; SELECT 2', undefined, 'multiple_statements'],
      ])('answers %j with %j as over HTTP: %s', async (sql, params, code) => {
        await newAccount()
        expect(await rejectedBy(client.sql({ cell: await newCell(), sql, params }))).toMatchObject({ code })
      })

      test('knows only cells that are there', async () => {
        for (const cell of [UNKNOWN, 'x', '', '__proto__', 'constructor', '..', 'a/b', '?', '\ud800']) {
          expect(await rejectedBy(client.sql({ cell, sql: 'SELECT 1' }))).toMatchObject({
            code: 'cell_not_found',
          })
        }
      })
    })

    describe('backups', () => {
      test('a recovery of a cell whose data is here does nothing, and says so', async () => {
        await newAccount()
        const cell = await newCell()
        expect(await client.recover({ cell })).toEqual({
          id: cell,
          recovered: false,
          size_bytes: store.databaseBytes(cell),
          duration_ms: expect.any(Number),
        })
        expect(await rejectedBy(client.recover({ cell: UNKNOWN }))).toMatchObject({ code: 'cell_not_found' })
      })

      const event = {
        phase: expect.stringMatching(/^(read|compress|upload|download)$/),
        bytes: expect.any(Number),
        total: expect.any(Number),
      }

      test('are made, listed, and restored, with their progress', async () => {
        await newAccount()
        const cell = await newCell()
        const select = { cell, sql: 'SELECT * FROM t' }
        await client.sql({ cell, sql: 'CREATE TABLE t (n)' })
        const { events, transfer } = watched()
        const snapshot = await client.backup({ cell, kind: 'snapshot' }, transfer)
        expect(snapshot).toEqual({
          version: expect.stringContaining(cell),
          kind: 'snapshot',
          size_bytes: expect.any(Number),
          sha256: expect.stringMatching(/^[0-9a-f]{64}$/),
          created_at: TIME,
          duration_ms: expect.any(Number),
        })
        expect(events).toEqual(expect.arrayContaining([event]))
        expect(new Set(events.map(({ phase }) => phase))).toEqual(new Set(['read', 'compress', 'upload']))

        await client.sql({ cell, sql: 'INSERT INTO t VALUES (1)' })
        const incremental = await client.backup({ cell, kind: 'incremental' })
        expect(incremental).toMatchObject({ kind: 'incremental', base_version: snapshot.version })

        const listed = await client.listBackups({ cell })
        expect(listed).toEqual({
          backups: [incremental, snapshot].map(({ version, kind, size_bytes, created_at, base_version }) => ({
            version,
            kind,
            size_bytes,
            created_at,
            base_version: base_version ?? null,
          })),
          next_cursor: null,
          restorable: TIMES_OF_TWO_VERSIONS,
        })

        const watchedRestore = watched()
        expect(await client.restore({ cell, version: snapshot.version }, watchedRestore.transfer)).toEqual({
          restored: true,
          version: snapshot.version,
          kind: 'snapshot',
          size_bytes: expect.any(Number),
          duration_ms: expect.any(Number),
          timestamp: expect.any(String),
          replaced_at: TIME,
        })
        expect(watchedRestore.events.map(({ phase }) => phase)).toContain('download')
        expect((await client.sql(select)).rows).toEqual([])
        await client.deleteCell({ cell })
        // The deletion has stored the last state.
        expect([snapshot.version, incremental.version]).not.toContain(
          (await client.restore({ cell })).version,
        )
        expect((await client.sql(select)).rows).toEqual([])
        await client.restore({ cell, version: incremental.version })
        expect((await client.sql(select)).rows).toEqual([{ n: 1 }])
      })

      test('are refused where there is no cell, no version, or another cell’s', async () => {
        await newAccount()
        const cell = await newCell()
        const { version } = await client.backup({ cell: await newCell(), kind: 'snapshot' })
        expect(await rejectedBy(client.backup({ cell: UNKNOWN, kind: 'snapshot' }))).toMatchObject({
          code: 'cell_not_found',
        })
        expect(await rejectedBy(client.restore({ cell, version }))).toMatchObject({
          kind: expect.stringMatching(/^(request|absent)$/),
        })
        expect(await client.listBackups({ cell })).toEqual({ backups: [], next_cursor: null, restorable: [] })
        expect(await rejectedBy(client.listBackups({ cell: UNKNOWN }))).toMatchObject({
          code: 'cell_not_found',
        })
      })

      test('are judged by a plan: what stays, why, and what goes', async () => {
        await newAccount()
        const cell = await newCell()
        const first = await client.backup({ cell, kind: 'snapshot' })
        const second = await client.backup({ cell, kind: 'snapshot' })
        const judged = await client.prune({ cell, dryRun: true })
        expect(judged).toEqual({
          plan: 'all:1d,hourly:3d,daily:30d,monthly:12mo',
          tenant_plan: 'all:1d,daily:30d',
          versions: [second, first].map(({ version, size_bytes }, i) => ({
            version,
            size_bytes,
            created_at: TIME,
            origin: 'owner',
            restorable: true,
            action: 'keep',
            reason: i === 0 ? 'current' : 'plan',
            step: i === 0 ? null : 'all:1d',
            marked_at: null,
          })),
        })
        expect(await client.prune({ cell })).toEqual(judged)
        expect(await rejectedBy(client.prune({ cell: 'x' }))).toMatchObject({ code: 'cell_not_found' })
      })

      test('are pinned and unpinned', async () => {
        await newAccount()
        const cell = await newCell()
        const { version } = await client.backup({ cell, kind: 'snapshot' })
        expect(await client.pin({ cell, version })).toEqual({ version, pinned: true })
        expect((await client.prune({ cell })).versions).toMatchObject([{ version, reason: 'pinned' }])
        expect(await client.unpin({ cell, version })).toEqual({ version, pinned: false })
        expect((await client.prune({ cell })).versions).toMatchObject([{ version, reason: 'current' }])
        expect((await rejectedBy(client.pin({ cell, version: 'x' }))).code).toBe('invalid_version')
      })

      test('are proven by a restore, and damage is named', async () => {
        await newAccount()
        const cell = await newCell()
        expect(await rejectedBy(client.verify({ cell }))).toMatchObject({ code: 'backup_not_found' })
        const { version } = await client.backup({ cell, kind: 'snapshot' })
        const proven = await client.verify({ cell, deep: true })
        expect(proven).toMatchObject({
          version,
          proven: true,
          deep: true,
          objects: [version],
          proven_at: TIME,
        })
        expect(proven.tables).toContainEqual({ name: '_cell_kv', rows: 0 })
        expect((await client.listCells({})).databases).toMatchObject([
          { id: cell, last_proven: { version, proven_at: proven.proven_at } },
        ])
        const { id } = await client.store()
        expect(id).toBe(store.id)
        expect((await client.verify({ cell: id })).tables).toContainEqual({ name: 'cells', rows: 1 })
        await store.purgeCell((await client.deleteCell({ cell })).id)
        expect(await rejectedBy(client.verify({ cell }))).toMatchObject({ code: 'backup_not_found' })
      })

      test("follow a cell's own plan, if it has one", async () => {
        await newAccount()
        const cell = await newCell()
        expect(await client.plan({ cell })).toEqual({ id: cell, plan: null })
        expect(await client.setPlan({ cell, plan: 'daily:1y' })).toEqual({ id: cell, plan: 'daily:1y' })
        expect((await client.prune({ cell, dryRun: true })).plan).toBe('daily:1y')
        expect(await rejectedBy(client.setPlan({ cell, plan: '30' }))).toMatchObject({
          code: 'invalid_request',
          details: { field: 'plan' },
        })
        expect(await client.setPlan({ cell, plan: null })).toEqual({ id: cell, plan: null })
      })

      test('of a deleted cell are purged, those of no other', async () => {
        await newAccount()
        const cell = await newCell()
        await client.backup({ cell, kind: 'snapshot' })
        expect((await rejectedBy(client.purge({ cell }))).message).toContain('The cell exists')
        await client.deleteCell({ cell })
        const purged = await client.purge({ cell })
        expect(purged).toEqual({ id: cell, purged: true, objects: 1, bytes: expect.any(Number) })
        expect((await rejectedBy(client.restore({ cell }))).code).toBe('backup_not_found')
        expect((await rejectedBy(client.purge({ cell: UNKNOWN }))).code).toBe('cell_not_found')
      })

      test('show in the listing when each cell was last stored', async () => {
        await newAccount()
        const cell = await newCell()
        await client.backup({ cell, kind: 'snapshot' })
        expect((await client.listCells({})).databases).toMatchObject([
          { id: cell, backed_up_to: TIME, last_stored_at: TIME, last_proven: null },
        ])
      })

      test('end when they are called off, and leave nothing behind', async () => {
        await newAccount()
        const cell = await newCell()
        await client.sql({ cell, sql: 'CREATE TABLE t AS SELECT randomblob(3000000) AS b' })
        const abort = new AbortController()
        const backup = client.backup(
          { cell, kind: 'snapshot' },
          { signal: abort.signal, onProgress: () => abort.abort() },
        )
        await expect(backup).rejects.toThrow()
        expect((await client.listBackups({ cell })).backups).toEqual([])
        await client.backup({ cell, kind: 'snapshot' })
      })
    })
  })
}

function watched() {
  const events: BackupProgressEvent[] = []
  return { events, transfer: { onProgress: (event) => void events.push(event) } satisfies BackupOptions }
}
