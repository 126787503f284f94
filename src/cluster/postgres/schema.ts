import { randomBytes } from 'node:crypto'
import { refused, stateOf } from './postgres-errors.ts'
import type { Queries, Transact } from './queries.ts'

/** What two nodes that make the schema at once see: duplicates, and catalog rows that the other one has just changed. */
const AT_ONCE = /^(23505|42P06|42P07|42710|40001|40P01|XX000)$/
const TRIES_MAX = 20

/**
 * From nothing to schema version 1, and so on. A version of cellstore that does not know the schema version refuses it.
 *
 * - `cluster`, one row, is the head of the catalog's log: `version` counts the changes. From `floor` on, the rows that a change
 *   has deleted are still there, marked: who has an older version reads all rows. `incarnation` is the PostgreSQL that the head was
 *   written by: see `Database.incarnation`.
 * - `rows` has each row of the catalog as the change `version` has left it, in JSON; null if that has deleted it.
 * - `versions` gives each change a random id: a node whose catalog has another one at the same version comes from a history that
 *   PostgreSQL has lost.
 * - `nodes` are the members.
 * - `taken_over` are the nodes whose cells others have taken.
 */
const MIGRATIONS: readonly string[] = [
  `
  ALTER TABLE cellstore.cluster ADD COLUMN store_id TEXT;
  ALTER TABLE cellstore.cluster ADD COLUMN catalog_schema INTEGER NOT NULL DEFAULT 0;
  ALTER TABLE cellstore.cluster ADD COLUMN secret TEXT NOT NULL DEFAULT '';
  ALTER TABLE cellstore.cluster ADD COLUMN version BIGINT NOT NULL DEFAULT 0;
  ALTER TABLE cellstore.cluster ADD COLUMN floor BIGINT NOT NULL DEFAULT 0;
  ALTER TABLE cellstore.cluster ADD COLUMN incarnation TEXT;
  CREATE TABLE cellstore.rows (
    tbl TEXT NOT NULL,
    key TEXT NOT NULL,
    version BIGINT NOT NULL,
    content TEXT,
    PRIMARY KEY (tbl, key)
  );
  CREATE INDEX rows_by_version ON cellstore.rows (version, tbl, key);
  CREATE TABLE cellstore.versions (version BIGINT NOT NULL PRIMARY KEY, id TEXT NOT NULL);
  CREATE TABLE cellstore.nodes (
    id TEXT NOT NULL PRIMARY KEY,
    address TEXT NOT NULL,
    prefix TEXT NOT NULL,
    epoch BIGINT NOT NULL,
    counter BIGINT NOT NULL DEFAULT 0,
    state TEXT NOT NULL, -- alive, leaving or dead
    seen_version BIGINT NOT NULL DEFAULT 0,
    stamp_bound BIGINT NOT NULL DEFAULT 0, -- epoch milliseconds
    busy_cells BIGINT NOT NULL DEFAULT 0,
    handed_in TEXT, -- the incarnation to which it has handed in what it had beyond the head
    started_at BIGINT NOT NULL -- epoch milliseconds
  );
  `,
  `
  ALTER TABLE cellstore.nodes ADD COLUMN backed_up_to BIGINT;
  CREATE TABLE cellstore.taken_over (
    node TEXT NOT NULL PRIMARY KEY,
    at BIGINT NOT NULL,
    backed_up_to BIGINT -- both in epoch milliseconds
  );
  `,
]

/** Makes the schema, or brings it to this version's. @throws `invalid_setting`, `cluster_unavailable` */
export async function migrate(transact: Transact): Promise<void> {
  for (let tries = 1; ; tries++) {
    try {
      await transact([], migrateOnce)
      return
    } catch (error) {
      if (tries === TRIES_MAX || !AT_ONCE.test(stateOf(error) ?? '')) throw error
    }
  }
}

async function migrateOnce(transaction: Queries): Promise<void> {
  await makeHead(transaction)
  // The row's lock makes nodes do it one after the other.
  const [head] = await transaction.query<{ schema_version: number }>(
    'SELECT schema_version FROM cellstore.cluster WHERE id = 1 FOR UPDATE',
  )
  const version = head?.schema_version ?? 0
  if (version > MIGRATIONS.length) {
    throw refused(
      `The cluster's schema has version ${version}, and this cellstore knows up to ${MIGRATIONS.length}. Install the version of the other nodes.`,
    )
  }
  const missing = MIGRATIONS.slice(version)
  if (missing.length === 0) return
  for (const ddl of missing) {
    for (const statement of ddl.split(';')) if (statement.trim() !== '') await transaction.query(statement)
  }
  await transaction.query('UPDATE cellstore.cluster SET schema_version = $1', [MIGRATIONS.length])
  await transaction.query("UPDATE cellstore.cluster SET secret = $1 WHERE secret = ''", [
    randomBytes(32).toString('hex'),
  ])
}

/** Only what is missing: a role that owns the schema need have no right to make one. */
async function makeHead(transaction: Queries): Promise<void> {
  const [found] = await transaction.query<{ has_schema: boolean; tables: string; marked: string }>(`
    SELECT EXISTS (SELECT 1 FROM pg_catalog.pg_namespace WHERE nspname = 'cellstore') AS has_schema,
      (SELECT count(*) FROM pg_catalog.pg_class AS c JOIN pg_catalog.pg_namespace AS n ON n.oid = c.relnamespace
        WHERE n.nspname = 'cellstore') AS tables,
      (SELECT count(*) FROM pg_catalog.pg_attribute AS a JOIN pg_catalog.pg_class AS c ON c.oid = a.attrelid
        JOIN pg_catalog.pg_namespace AS n ON n.oid = c.relnamespace
        WHERE n.nspname = 'cellstore' AND c.relname = 'cluster' AND a.attname = 'schema_version') AS marked`)
  if (Number(found?.marked) > 0) return
  if (Number(found?.tables) > 0) {
    throw refused(
      'The schema cellstore of this database holds something else. Give the cluster a database of its own.',
    )
  }
  if (found?.has_schema !== true) await transaction.query('CREATE SCHEMA cellstore')
  await transaction.query(
    'CREATE TABLE cellstore.cluster (id INTEGER NOT NULL PRIMARY KEY CHECK (id = 1), schema_version INTEGER NOT NULL)',
  )
  await transaction.query('INSERT INTO cellstore.cluster VALUES (1, 0)')
}
