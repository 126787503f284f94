import path from 'node:path'
import { freePort } from '../../../test/support/free-port.ts'
import { GET, PUT } from '../library/library-peer.ts'
import { programOnPath, programVersion } from '../packages.ts'
import { type Asked, ask, type HttpPeer, type HttpServer, json, startProgram, VALUE } from './http-peer.ts'

const program = () =>
  programOnPath('rqlited', 'neither npm nor Debian has it; put a release of rqlite on the PATH')

/** One node, whose Raft log is synced before a change is answered. Reads have its default level, weak. */
export const peer: HttpPeer = {
  version: () => `${programVersion(program(), '-version')}, reads level=weak`,
  single: 'a node has one database',
  async start(directory) {
    const [port, raft] = [await freePort(), await freePort()]
    const addresses = ['-http-addr', `127.0.0.1:${port}`, '-raft-addr', `127.0.0.1:${raft}`]
    const { pid, stop } = await startProgram(
      program(),
      ['-node-id', '1', ...addresses, path.join(directory, 'data')],
      port,
    )
    const sql = (text: string, params: readonly unknown[]): Asked => ({
      method: 'POST',
      path: /^select/i.test(text) ? '/db/query' : '/db/execute',
      body: json([[text, ...params]]),
    })
    const server: HttpServer = {
      pid,
      port,
      headers: '',
      createDatabase: async () => {
        await ask(server, { method: 'GET', path: '/readyz' })
        await ask(
          server,
          sql('CREATE TABLE IF NOT EXISTS kv (key TEXT PRIMARY KEY, value TEXT) WITHOUT ROWID', []),
        )
        return 'the one'
      },
      get: (_, key) => sql(GET, [key]),
      put: (_, key) => sql(PUT, [key, VALUE]),
      sql: (_, text, params) => sql(text, params),
      stop,
    }
    return server
  },
}
