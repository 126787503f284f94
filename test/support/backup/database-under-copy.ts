import { createHash } from 'node:crypto'
import path from 'node:path'
import Database from 'better-sqlite3'
import { onTestFinished } from 'vitest'
import { ChangeTracker } from '../../../src/backup/changes/change-tracker.ts'
import { OpenCellCuts } from '../../../src/backup/changes/log/cell-cutter.ts'
import { BackupProgressTable } from '../../../src/backup/changes/progress-table.ts'
import type { DatabaseReader } from '../../../src/backup/create/database-reader.ts'
import { CellPaths } from '../../../src/base/files/store-paths.ts'
import { LocalState } from '../../../src/catalog/local-state.ts'
import type { CellDatabase, CellHooks } from '../../../src/engine/cell-database.ts'
import { FakeClock } from '../fake-clock.ts'
import { openTestDatabase } from '../open-test-database.ts'
import type { Random } from '../random.ts'
import { tempDirectory } from '../temp-directory.ts'

const TABLES = ['alpha', 'beta', 'gamma']
const SLICE_BYTES = 16_384

/** A database to which everything happens that moves or removes pages, and what a backup asks of it. */
export class DatabaseUnderCopy {
  readonly database: CellDatabase
  readonly cuts: OpenCellCuts
  readonly #random: Random

  constructor(random: Random) {
    this.#random = random
    const hooks: CellHooks = {
      beforeCheckpoint: (database, wal) => tracker.hooks.beforeCheckpoint?.(database, wal),
      afterCheckpoint: (database) => tracker.hooks.afterCheckpoint?.(database),
    }
    this.database = openTestDatabase({ hooks, durability: 'relaxed', checkpointBytes: 60_000 })
    const state = new LocalState(path.join(tempDirectory(), 'local.db'))
    onTestFinished(() => state.close())
    const paths = new CellPaths(path.dirname(this.database.path))
    const clock = new FakeClock()
    const tracker = new ChangeTracker('cell', {
      paths,
      table: new BackupProgressTable(state),
      clock,
      isShipped: false,
      onChange: () => {},
      onUnshipped: () => {},
    })
    this.cuts = new OpenCellCuts(this.database, tracker, clock)
    for (const table of TABLES) this.database.sql(`CREATE TABLE ${table} (n INTEGER PRIMARY KEY, x)`)
    // A schema of several pages.
    for (let i = 0; i < 40; i++)
      this.database.sql(`CREATE TABLE other_${i} (${'column_with_a_name_'.repeat(5)})`)
    for (let i = 0; i < 60; i++) this.write(20_000)
  }

  write(bytes = 3_000): void {
    const table = this.#random.pick(TABLES)
    const size = 1 + this.#random.below(bytes)
    this.database.sql(
      this.#random.pick([
        `INSERT INTO ${table} (x) VALUES (randomblob(${size}))`,
        `INSERT INTO ${table} (x) SELECT randomblob(${size}) FROM json_each('[1,2,3]')`,
        `UPDATE ${table} SET x = randomblob(${size}) WHERE n % ${2 + this.#random.below(9)} = 0`,
        `DELETE FROM ${table} WHERE n % ${2 + this.#random.below(9)} = 0 AND n > 5`,
      ]),
    )
  }

  step(): void {
    const { checkpoints } = this.database
    const choices: [number, () => void][] = [
      [20, () => this.write()],
      [4, () => this.write(60_000)],
      [3, () => void checkpoints.run('PASSIVE')],
      [3, () => void checkpoints.run('TRUNCATE')],
      [1, () => this.database.exec('VACUUM')],
      [2, () => this.#changeSchema()],
    ]
    let at = this.#random.below(choices.reduce((sum, [weight]) => sum + weight, 0))
    for (const [weight, run] of choices) {
      if (at < weight) {
        run()
        return
      }
      at -= weight
    }
  }

  #changeSchema(): void {
    const i = this.#random.below(40)
    this.database.sql(`DROP TABLE IF EXISTS other_${i}`)
    if (this.#random.chance(0.6))
      this.database.sql(`CREATE TABLE other_${i} (${'another_name_'.repeat(1 + this.#random.below(60))})`)
  }

  /** A reader that lets some steps happen between every two small pieces. */
  between(reader: DatabaseReader, stepsMax: number): DatabaseReader {
    return {
      read: async (bytes, offset) => {
        for (let at = 0; at < bytes.length; ) {
          for (let i = this.#random.below(stepsMax + 1); i > 0; i--) this.step()
          const slice = bytes.subarray(at, at + SLICE_BYTES)
          const read = await reader.read(slice, offset + at)
          at += read
          if (read < slice.length) return at
        }
        return bytes.length
      },
      close: () => reader.close(),
    }
  }

  /** What the database holds now. */
  digest(): string {
    return digestOf((sql) => this.database.prepare(sql).raw().all() as unknown[][])
  }
}

/** What a file holds, and whether SQLite finds it whole; undefined if it cannot even be read. */
export function digestOfFile(file: string): { digest: string; check: unknown } | undefined {
  const connection = new Database(file)
  try {
    return {
      digest: digestOf((sql) => connection.prepare(sql).raw().all() as unknown[][]),
      check: connection.pragma('integrity_check', { simple: true }),
    }
  } catch {
    return undefined
  } finally {
    connection.close()
  }
}

function digestOf(read: (sql: string) => unknown[][]): string {
  const hash = createHash('sha256')
  const schema = read('SELECT type, name, sql FROM sqlite_schema ORDER BY name')
  hash.update(JSON.stringify(schema))
  for (const [type, name] of schema) {
    if (type !== 'table') continue
    for (const row of read(`SELECT * FROM "${name}"`)) {
      for (const value of row) hash.update(value instanceof Uint8Array ? value : `${typeof value} ${value}\n`)
    }
  }
  return hash.digest('hex')
}
