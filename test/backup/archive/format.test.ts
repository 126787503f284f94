import { execFileSync } from 'node:child_process'
import fs from 'node:fs'
import path from 'node:path'
import { beforeEach, describe, expect, test } from 'vitest'
import type { Cell } from '../../../src/store/open/cell.ts'
import { HAS_TOOLS, query, recoverByHand } from '../../support/backup/by-hand.ts'
import { digestOfFile } from '../../support/backup/database-digest.ts'
import { addRow, createLedger, notes, ScratchPlace } from '../../support/backup/scratch-store.ts'
import { tempDirectory } from '../../support/temp-directory.ts'

const DOCUMENT = fs.readFileSync(new URL('../../../docs/format.md', import.meta.url), 'utf8')

const place = ScratchPlace.perTest()

describe.runIf(HAS_TOOLS)('By hand, as docs/format.md says,', () => {
  test('a snapshot is unpacked in one line', async () => {
    const store = await place.create()
    const cell = createLedger(store)
    for (const note of ['one', 'two']) addRow(cell, note, 100_000)
    cell.kv.put('greeting', 'hello')
    const { version } = await store.backups.snapshot(cell.id)
    const line = /^ +(zstd -dcq < backup-\S+ \| tar -xf -)$/m.exec(DOCUMENT)?.[1] as string
    const folder = tempDirectory()
    const command = line.replace(/backup-\S+/, path.join(place.objects, version))
    execFileSync('sh', ['-c', command], { cwd: folder })
    expect(fs.readdirSync(folder).sort()).toEqual(['cell.db', 'checksums.json', 'manifest.json'])
    const file = path.join(folder, 'cell.db')
    expect(
      execFileSync('sqlite3', [file, 'SELECT note FROM ledger; PRAGMA integrity_check'], {
        encoding: 'utf8',
      }),
    ).toBe('one\ntwo\nok\n')
    expect(query(file, 'SELECT key, value, expires_at FROM _cell_kv')).toEqual([['greeting', 'hello', null]])
  })

  test('every version of a chain is recovered by the loop, with the same rows that a restore brings back', async () => {
    const store = await place.create({ checkpointBytes: 40_000, openCellsMax: 1 })
    const cell = createLedger(store)
    const other = store.createCell()
    const versions: string[] = []
    for (let i = 0; i < 5; i++) {
      for (let n = 0; n < 4; n++) addRow(cell, `row ${i}.${n}`, 30_000)
      other.sql('PRAGMA user_version')
      cell.kv.put(`key:${i}`, `value ${i}`)
      versions.push((await store.backups.incremental(cell.id)).version)
    }
    for (const version of versions) {
      const recovered = recoverByHand(place.objects, version)
      await store.backups.restore(cell.id, { version })
      const sql = 'SELECT note, hex(payload) FROM ledger ORDER BY n'
      expect(query(recovered, sql)).toEqual(cell.sql<unknown[]>(sql, [], { rowMode: 'array' }).rows)
      const keys = 'SELECT key, value FROM _cell_kv'
      expect(query(recovered, keys)).toEqual(cell.sql<unknown[]>(keys, [], { rowMode: 'array' }).rows)
    }
  })

  test('the catalog is recovered too, and tells a cell’s id by its name', async () => {
    const store = await place.create()
    const cell = store.createCell({ name: 'acme' })
    await store.core.catalogStored()
    const { store_id } = JSON.parse(fs.readFileSync(path.join(place.objects, 'store.json'), 'utf8'))
    const newest = fs
      .readdirSync(path.join(place.objects, 'snapshots', store_id))
      .sort()
      .at(-1)
    const catalog = recoverByHand(place.objects, `snapshots/${store_id}/${newest}`)
    const found = execFileSync('sqlite3', [catalog, "SELECT id FROM cells WHERE name = 'acme'"], {
      encoding: 'utf8',
    })
    expect(found.trim()).toBe(cell.id)
  })

  test('the loop stops at damage: it makes no database of it', async () => {
    const store = await place.create()
    const cell = createLedger(store)
    addRow(cell, 'one', 10_000)
    await store.backups.snapshot(cell.id)
    addRow(cell, 'two', 10_000)
    const { version } = await store.backups.incremental(cell.id)
    const file = path.join(place.objects, version)
    const bytes = fs.readFileSync(file)
    bytes[bytes.length >> 1] = (bytes[bytes.length >> 1] as number) ^ 1
    fs.rmSync(file)
    fs.writeFileSync(file, bytes)
    expect(() => recoverByHand(place.objects, version)).toThrow()
  })
})

describe('docs/format.md names', () => {
  test('every field of store.json, and no other', async () => {
    await place.create()
    const identity = JSON.parse(fs.readFileSync(path.join(place.objects, 'store.json'), 'utf8'))
    const section = DOCUMENT.slice(
      DOCUMENT.indexOf('### store.json'),
      DOCUMENT.indexOf('### Fences and records'),
    )
    expect(fieldsIn(section)).toEqual(Object.keys(identity))
  })

  test.runIf(HAS_TOOLS)('every field of a manifest, and no other', async () => {
    const store = await place.create({ backups: { maxLagMs: 10_000 } })
    const cell = createLedger(store)
    const { version } = await store.backups.snapshot(cell.id)
    const text = execFileSync('sh', [
      '-c',
      `zstd -dcq < ${path.join(place.objects, version)} | tar -xOf - manifest.json`,
    ])
    const section = DOCUMENT.slice(
      DOCUMENT.indexOf('### manifest.json'),
      DOCUMENT.indexOf('### checksums.json'),
    )
    // Only a version that a restore has caused has it.
    const fields = [...Object.keys(JSON.parse(text.toString())), 'repeats']
    expect(fieldsIn(section).sort()).toEqual(fields.sort())
  })

  test('every table of a cell and of the catalog, with all columns', async () => {
    const store = await place.create()
    const cell = store.createCell()
    await store.close()
    place.directory.mayHaveLogs = true
    for (const [file, heading] of [
      [place.paths.cell(cell.id).database, "## A cell's database"],
      [place.paths.catalog, "## The catalog's database"],
    ] as const) {
      const section = DOCUMENT.slice(DOCUMENT.indexOf(heading)).split('\n## ')[0] as string
      const tables = query(
        file,
        "SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite_%'",
      ).flat()
      expect(tables.length).toBeGreaterThan(1)
      for (const table of tables) {
        const row = section.split('\n').find((line) => line.startsWith(`| \`${table}\``))
        for (const column of query(file, `SELECT name FROM pragma_table_info('${table}')`).flat()) {
          expect(row, `${table}.${column}`).toContain(`\`${column}\``)
        }
      }
    }
  })
})

describe.each(['v1', 'v2'])('The golden store %s', (format) => {
  const golden = new URL(`../../golden/${format}/`, import.meta.url).pathname
  const expected = JSON.parse(fs.readFileSync(path.join(golden, 'expected.json'), 'utf8')) as {
    storeId: string
    accountId: string
    apiKey: string
    cellId: string
    versions: {
      version: string
      notes: string[]
      keys: Record<string, string>
      entryVersions?: Record<string, string>
      digest: string
    }[]
  }

  beforeEach(() => {
    fs.cpSync(path.join(golden, 'bucket'), place.objects, { recursive: true })
  })

  test('comes back: accounts, keys, cells, and every version of them', async () => {
    const store = await place.open()
    expect(store.id).toBe(expected.storeId)
    expect(store.apiKeys.verify(expected.apiKey)).toMatchObject({ accountId: expected.accountId })
    expect(store.cells().cells).toMatchObject([
      { id: expected.cellId, name: 'golden', accountId: expected.accountId },
    ])
    const { backups } = await store.backups.list(expected.cellId)
    expect(backups.map(({ version }) => version)).toEqual(
      expected.versions.map(({ version }) => version).reverse(),
    )
    const cell = store.openCell(expected.cellId)
    await cell.ensureLocal()
    expectState(cell, expected.versions.at(-1))
    for (const state of expected.versions) {
      await store.backups.restore(cell.id, { version: state.version })
      expectState(cell, state)
    }
    addRow(cell, 'and life goes on')
    expect((await store.backups.incremental(cell.id)).baseVersion).toBeNull()
  })

  test.runIf(HAS_TOOLS)('comes back by hand', () => {
    for (const { version, notes: rows } of expected.versions) {
      expect(
        query(recoverByHand(place.objects, version), 'SELECT note FROM ledger ORDER BY n').flat(),
      ).toEqual(rows)
    }
  })

  function expectState(cell: Cell, state: (typeof expected.versions)[number] | undefined): void {
    // The file comes first: its first use may upgrade it.
    expect(digestOfFile(place.paths.cell(cell.id).database)).toBe(state?.digest)
    expect(notes(cell)).toEqual(state?.notes)
    for (const [key, value] of Object.entries(state?.keys ?? {})) expect(cell.kv.get(key)).toBe(value)
    for (const [key, version] of Object.entries(state?.entryVersions ?? {})) {
      expect(cell.kv.entry(key)?.version).toBe(version)
    }
  }
})

/** What the first column of a table names, in its order. */
function fieldsIn(section: string): string[] {
  return section
    .split('\n')
    .filter((line) => line.startsWith('| `'))
    .flatMap((line) => [...((line.split('|')[1] as string).match(/[a-z_]+/g) ?? [])])
}
