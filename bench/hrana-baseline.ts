import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import path from 'node:path'
import { text } from 'node:stream/consumers'
import Database from 'better-sqlite3'

/**
 * What a server of Hrana can't do without, and nothing else: node:http, one connection of better-sqlite3 whose commits are on disk, and the
 * statements of a pipeline. It knows one client, no keys, no batons, no errors. Its argument is a directory; it prints its address when it serves.
 */
interface Value {
  type: 'float' | 'integer' | 'text'
  value: string | number
}
interface Stmt {
  sql?: string | null
  sql_id?: number
  args?: Value[]
}
interface Request {
  type: string
  stmt?: Stmt
  batch?: { steps: { stmt: Stmt }[] }
  sql?: string
  sql_id?: number
}

const database = new Database(path.join(process.argv[2] as string, 'bare.db'))
database.pragma('journal_mode = WAL')
database.pragma('synchronous = FULL')
const statements = new Map<string, Database.Statement>()

/** Texts that a request names by number. */
const texts: string[] = []

function run({ sql, sql_id = 0, args = [] }: Stmt): object {
  const source = sql ?? texts[sql_id] ?? ''
  let statement = statements.get(source)
  if (statement === undefined) {
    statement = database.prepare(source)
    statements.set(source, statement)
  }
  const bound = args.map(({ type, value }) => (type === 'text' ? value : Number(value)))
  if (!statement.reader) {
    const { changes } = statement.run(...bound)
    return { cols: [], rows: [], affected_row_count: changes, last_insert_rowid: null }
  }
  const cols = statement.columns().map(({ name }) => ({ name }))
  const rows = statement.raw().all(...bound) as unknown[][]
  const encoded = rows.map((row) =>
    row.map((each) => ({ type: typeof each === 'number' ? 'integer' : 'text', value: String(each) })),
  )
  return { cols, rows: encoded, affected_row_count: 0, last_insert_rowid: null }
}

function answer({ type, stmt, batch, sql, sql_id = 0 }: Request): object {
  if (type === 'store_sql') texts[sql_id] = sql ?? ''
  if (stmt !== undefined) return { type, result: run(stmt) }
  if (batch === undefined) return { type, is_autocommit: !database.inTransaction }
  // The ROLLBACK that clients send for the case of an error is not run.
  const results = batch.steps.map(({ stmt }) => (stmt.sql === 'ROLLBACK' ? null : run(stmt)))
  return { type, result: { step_results: results, step_errors: results.map(() => null) } }
}

const server = createServer(async (request, response) => {
  const body = await text(request)
  const { requests } = (body === '' ? { requests: [] } : JSON.parse(body)) as { requests: Request[] }
  const results = requests.map((each) => ({ type: 'ok', response: answer(each) }))
  const closed = requests.at(-1)?.type === 'close'
  response.setHeader('content-type', 'application/json')
  response.end(JSON.stringify({ baton: closed ? null : 'one', base_url: null, results }))
})
server.listen(0, '127.0.0.1', () => {
  console.log(JSON.stringify({ address: `http://127.0.0.1:${(server.address() as AddressInfo).port}` }))
})
process.on('SIGTERM', () => process.exit())
