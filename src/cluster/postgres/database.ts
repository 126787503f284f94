import type pg from 'pg'
import { CellError, isCellError } from '../../errors.ts'
import { isOutage, refusedStart, toCellError } from './postgres-errors.ts'
import type { Queries, Value } from './queries.ts'
import { migrate } from './schema.ts'

/** What a connection, and each statement, may take. */
const DEADLINE_MS = 5_000
const CONNECTIONS_MAX = 6
const BOUNDED = ['lock_timeout', 'statement_timeout', 'idle_in_transaction_session_timeout']
const INT8 = 20

/**
 * What names one history of a PostgreSQL: another value means that it was restarted, or that a copy has taken its place, and may
 * have lost commits that it had acknowledged. The first of these that works; CockroachDB keeps what it has acknowledged.
 */
const INCARNATIONS = [
  `(SELECT system_identifier::text FROM pg_control_system()) || '-' || substr(pg_walfile_name(pg_current_wal_lsn()), 1, 8)
    || '-' || extract(epoch FROM pg_postmaster_start_time())::text`,
  'extract(epoch FROM pg_postmaster_start_time())::text',
  "'' || crdb_internal.cluster_id()::text",
] as const

/**
 * The PostgreSQL that the nodes of a cluster share, with the schema `cellstore` in it. BIGINT columns are numbers. Nothing waits for
 * longer than some seconds.
 */
export class Database implements Queries {
  readonly #pool: pg.Pool
  /** An expression in SQL: see {@link INCARNATIONS}. */
  readonly incarnation: string
  /** What a connection that breaks leaves behind holds its locks no longer than this. */
  readonly #begin: readonly string[]

  private constructor(pool: pg.Pool, incarnation: string, deadlineMs: number, isSynchronous: boolean) {
    this.#pool = pool
    this.incarnation = incarnation
    this.#begin = [
      'BEGIN ISOLATION LEVEL READ COMMITTED',
      ...BOUNDED.map((setting) => `SET LOCAL ${setting} = ${deadlineMs}`),
      // Otherwise a crash of one of the server's processes could lose commits, and nothing would tell.
      ...(isSynchronous ? [] : ['SET LOCAL synchronous_commit = on']),
    ]
  }

  /**
   * Connects, and makes or migrates the schema. Nodes that start at once do so once.
   *
   * @param url `postgres://user:password@host:port/database`
   * @throws `invalid_setting` for a URL that is none, a role without the rights, a schema `cellstore` that holds something else,
   * or that a newer version of cellstore has made; `cluster_unavailable` if PostgreSQL does not answer
   */
  static async connect(url: string, { deadlineMs = DEADLINE_MS } = {}): Promise<Database> {
    checkUrl(url)
    const { default: postgres } = await import('pg')
    const pool = newPool(postgres, url, deadlineMs)
    try {
      const incarnation = await incarnationOf(pool)
      const { rows } = await pool.query(
        "SELECT current_setting('synchronous_commit', true) AS is_synchronous",
      )
      const isSynchronous = !/^(off|local)$/.test(rows[0].is_synchronous ?? 'on')
      const database = new Database(pool, incarnation, deadlineMs, isSynchronous)
      await migrate((opening, run) => database.transaction(opening, run))
      return database
    } catch (error) {
      await pool.end()
      throw refusedStart(error)
    }
  }

  query<Row extends object>(text: string, values?: readonly Value[]): Promise<Row[]> {
    return queriesOf(this.#pool).query(text, values)
  }

  /**
   * Runs a transaction at READ COMMITTED. What `run` throws rolls it back and is thrown.
   *
   * @param opening statements without values that go with the BEGIN: they cost no round trip of their own
   * @param run gets their rows
   * @throws `cluster_unavailable`: if all of `run` was carried out, nobody knows whether the COMMIT was
   */
  async transaction<T>(
    opening: readonly string[],
    run: (transaction: Queries, opened: object[][]) => Promise<T>,
  ): Promise<T> {
    const client = await this.#pool.connect().catch((error) => {
      throw toCellError(error)
    })
    const transaction = queriesOf(client)
    try {
      const results: unknown = await client.query([...this.#begin, ...opening].join(';')).catch((error) => {
        throw toCellError(error)
      })
      const opened = (results as pg.QueryResult[]).slice(this.#begin.length).map(({ rows }) => rows)
      const value = await run(transaction, opened)
      await transaction.query('COMMIT')
      client.release()
      return value
    } catch (error) {
      // A connection that has lost an answer is of no use, and one that is closed rolls back.
      const isSound = !isCellError(error, 'cluster_unavailable') && (await rollsBack(transaction))
      client.release(!isSound)
      throw error
    }
  }

  async close(): Promise<void> {
    await this.#pool.end()
  }
}

function queriesOf(connection: pg.Pool | pg.PoolClient): Queries {
  return {
    async query<Row extends object>(text: string, values: readonly Value[] = []): Promise<Row[]> {
      try {
        return (await connection.query<Row & pg.QueryResultRow>(text, [...values])).rows
      } catch (error) {
        throw toCellError(error)
      }
    },
  }
}

async function rollsBack(transaction: Queries): Promise<boolean> {
  try {
    await transaction.query('ROLLBACK')
    return true
  } catch {
    return false
  }
}

function newPool(postgres: typeof pg, url: string, deadlineMs: number): pg.Pool {
  let config: pg.PoolConfig
  try {
    config = {
      connectionString: url,
      max: CONNECTIONS_MAX,
      connectionTimeoutMillis: deadlineMs,
      query_timeout: deadlineMs,
      keepAlive: true,
      application_name: 'cellstore',
      // A node that waits for nothing else may end.
      allowExitOnIdle: true,
      types: {
        getTypeParser: (oid: number, format?: 'text' | 'binary') =>
          oid === INT8 ? Number : postgres.types.getTypeParser(oid, format as 'text'),
      } as pg.CustomTypesConfig,
    }
    const pool = new postgres.Pool(config)
    // A connection that breaks beside its statements is no matter: the next one fails, or gets another connection.
    pool.on('error', () => {})
    pool.on('connect', (client) => client.on('error', () => {}))
    return pool
  } catch {
    throw badUrl('it has a part that is malformed')
  }
}

async function incarnationOf(pool: pg.Pool): Promise<string> {
  let failure: unknown
  for (const expression of INCARNATIONS) {
    try {
      await pool.query(`SELECT ${expression}`)
      return expression
    } catch (error) {
      if (isOutage(error)) throw error
      failure ??= error
    }
  }
  throw failure
}

function checkUrl(url: string): void {
  let protocol: string
  try {
    protocol = new URL(url).protocol
  } catch {
    throw badUrl('it is no URL')
  }
  if (!/^postgres(ql)?:$/.test(protocol)) throw badUrl(`it begins with ${protocol}`)
}

function badUrl(why: string): CellError {
  const message = `The cluster's URL can't be used: ${why}. It has the form postgres://user:password@host:5432/database.`
  return new CellError('invalid_setting', message, { field: 'cluster' })
}
