import type { Database } from './database.ts'

/** What the nodes share beside the catalog. */
export interface ClusterRow {
  /** Null before the first node. */
  store_id: string | null
  /** Signs what nodes say to each other. */
  secret: string
}

export async function readClusterRow(database: Database): Promise<ClusterRow> {
  const [row] = await database.query<ClusterRow>(
    'SELECT store_id, secret FROM cellstore.cluster WHERE id = 1',
  )
  return row ?? { store_id: null, secret: '' }
}

/** The database has no store any more. The next cluster can be any. */
export async function dissolve(database: Database): Promise<void> {
  await database.transaction([], async (transaction) => {
    await transaction.query('UPDATE cellstore.cluster SET store_id = NULL, incarnation = NULL WHERE id = 1')
    for (const table of ['rows', 'versions', 'nodes'])
      await transaction.query(`DELETE FROM cellstore.${table}`)
  })
}
