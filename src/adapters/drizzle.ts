// cellstore/drizzle: Drizzle ORM on a cell.

import type { DrizzleConfig } from 'drizzle-orm'
import { drizzle as drizzleStorage } from 'drizzle-orm/durable-sqlite'
import { type MigrationConfig, readMigrationFiles } from 'drizzle-orm/migrator'
import type { BaseSQLiteDatabase } from 'drizzle-orm/sqlite-core'
import type { Cell, CellStorage } from '../index.ts'

/** Drizzle's database. Its queries and transactions are synchronous; `run()` tells nothing, `returning()` does. */
export type CellDrizzle<Schema extends Record<string, unknown> = Record<string, never>> = BaseSQLiteDatabase<
  'sync',
  void,
  Schema
> & { $client: CellStorage }

/**
 * Drizzle on a cell, through `drizzle-orm/durable-sqlite` and `cell.storage`.
 *
 * ```ts
 * const db = drizzle(store.cell('acme'), { schema })
 * db.insert(users).values({ name: 'Ann' }).run()
 * ```
 */
export function drizzle<Schema extends Record<string, unknown> = Record<string, never>>(
  cell: Cell,
  config?: DrizzleConfig<Schema>,
): CellDrizzle<Schema> {
  return drizzleStorage(cell.storage as never, config) as unknown as CellDrizzle<Schema>
}

/** drizzle-kit puts them around the statements that rebuild a table. Inside of a transaction they would do nothing. */
const FOREIGN_KEYS = /^\s*PRAGMA\s+foreign_keys\s*=\s*(ON|OFF)\s*;?\s*$/i

/**
 * Runs the migrations that drizzle-kit has generated and the cell has not had, all in one transaction. Foreign keys are off meanwhile and
 * checked at the end, so that rebuilding a table deletes no rows that refer to it. What has run is in `__drizzle_migrations`, as of
 * Drizzle's own migrators.
 *
 * ```ts
 * migrate(cell, { migrationsFolder: './drizzle' })
 * ```
 *
 * @throws `constraint_violation` if a row is left without its parent; `invalid_request` inside a transaction; what a statement throws
 */
export function migrate(
  cell: Cell,
  config: Pick<MigrationConfig, 'migrationsFolder' | 'migrationsTable'>,
): void {
  const migrations = readMigrationFiles(config)
  const table = `"${(config.migrationsTable ?? '__drizzle_migrations').replaceAll('"', '""')}"`
  cell.withoutForeignKeys(() => {
    cell.exec(
      `CREATE TABLE IF NOT EXISTS ${table} (id SERIAL PRIMARY KEY, hash text NOT NULL, created_at numeric)`,
    )
    const last = cell.get<{ at: number | null }>(`SELECT max(created_at) AS at FROM ${table}`)?.at
    for (const { sql, hash, folderMillis } of migrations) {
      if (last != null && Number(last) >= folderMillis) continue
      for (const script of sql) if (!FOREIGN_KEYS.test(script)) cell.exec(script)
      cell.sql(`INSERT INTO ${table} (hash, created_at) VALUES (?, ?)`, [hash, folderMillis])
    }
  })
}
