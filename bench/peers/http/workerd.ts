import fs from 'node:fs'
import path from 'node:path'
import { freePort } from '../../../test/support/free-port.ts'
import { packagedProgram, programVersion } from '../packages.ts'
import { type HttpPeer, json, startProgram, VALUE } from './http-peer.ts'

const program = () => packagedProgram('@cloudflare/workerd-linux-64', 'bin/workerd')

/** Objects with SQLite storage on the local disk, one for each database. An answer leaves an object when its changes are confirmed. */
const configuration = (port: number, directory: string) => `using Workerd = import "/workerd/workerd.capnp";
const config :Workerd.Config = (
  services = [
    (name = "main", worker = .worker),
    (name = "disk", disk = (path = ${JSON.stringify(directory)}, writable = true)),
  ],
  sockets = [(name = "http", address = "127.0.0.1:${port}", http = (), service = "main")],
);
const worker :Workerd.Worker = (
  modules = [(name = "worker", esModule = embed "worker.js")],
  compatibilityDate = "2026-01-01",
  durableObjectNamespaces = [(className = "Cell", uniqueKey = "cells", enableSql = true)],
  durableObjectStorage = (localDisk = "disk"),
  bindings = [(name = "CELLS", durableObjectNamespace = "Cell")],
);
`

const WORKER = `import { DurableObject } from 'cloudflare:workers'
export class Cell extends DurableObject {
  async fetch(request) {
    const { storage } = this.ctx
    if (request.method === 'POST') {
      const { sql, params } = await request.json()
      return Response.json({ rows: storage.sql.exec(sql, ...params).toArray() })
    }
    const key = new URL(request.url).pathname.split('/')[2]
    if (request.method === 'GET') return Response.json({ key, value: await storage.get(key) })
    await storage.put(key, (await request.json()).value)
    return Response.json({ key })
  }
}
export default {
  fetch(request, { CELLS }) {
    return CELLS.get(CELLS.idFromName(new URL(request.url).pathname.split('/')[1])).fetch(request)
  },
}
`

export const peer: HttpPeer = {
  version: () => `${programVersion(program(), '--version')}, Durable Objects with SQLite`,
  async start(directory) {
    const port = await freePort()
    const data = path.join(directory, 'data')
    fs.mkdirSync(data, { recursive: true })
    const file = path.join(directory, 'config.capnp')
    fs.writeFileSync(file, configuration(port, data))
    fs.writeFileSync(path.join(directory, 'worker.js'), WORKER)
    const { pid, stop } = await startProgram(program(), ['serve', file], port)
    let databases = 0
    return {
      pid,
      port,
      headers: '',
      // The first request makes it.
      createDatabase: async () => `d${databases++}`,
      get: (database, key) => ({ method: 'GET', path: `/${database}/${key}` }),
      put: (database, key) => ({ method: 'PUT', path: `/${database}/${key}`, body: json({ value: VALUE }) }),
      sql: (database, sql, params) => ({
        method: 'POST',
        path: `/${database}/`,
        body: json({ sql, params }),
      }),
      stop,
    }
  },
}
