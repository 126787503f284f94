import { startCellstore } from '../../http-process.ts'
import { commit } from '../results.ts'
import { ask, type HttpPeer, type HttpServer, json, VALUE } from './http-peer.ts'

/** Only the first start prints one. */
const firstKeys = new Map<string, string>()

/** `cellstore serve` with nothing set: keys are checked, backups run. */
export const peer: HttpPeer = {
  version: () => `cellstore serve ${commit()}`,
  async start(directory) {
    const { port, pid, key, stop } = await startCellstore(directory, [])
    if (key !== '') firstKeys.set(directory, key)
    const place = (database: string) => `/v1/databases/${database}`
    const server: HttpServer = {
      pid,
      port,
      headers: `x-api-key: ${firstKeys.get(directory)}\r\n`,
      createDatabase: async () => {
        const made = await ask(server, { method: 'POST', path: '/v1/databases', body: '{}' })
        return (JSON.parse(made) as { id: string }).id
      },
      get: (database, key) => ({ method: 'GET', path: `${place(database)}/kv/${key}` }),
      put: (database, key) => ({
        method: 'PUT',
        path: `${place(database)}/kv/${key}`,
        body: json({ value: VALUE }),
      }),
      sql: (database, sql, params) => ({
        method: 'POST',
        path: `${place(database)}/sql`,
        body: json({ sql, params }),
      }),
      stop,
    }
    return server
  },
}
