import fs from 'node:fs'
import path from 'node:path'
import { startBaseline } from '../../http-process.ts'
import { packageVersion } from '../packages.ts'
import { type HttpPeer, json, VALUE } from './http-peer.ts'

/** node:http and better-sqlite3 with a group commit: keys, limits, backups and all else are left out. */
const bare = (program: string, where: string): HttpPeer => ({
  version: () => `node:http and ${packageVersion('better-sqlite3')}${where}, WAL, synchronous=FULL`,
  async start(directory) {
    const logFile = path.join(directory, 'errors.log')
    const { port, pid, stop } = await startBaseline(directory, { program, logFile })
    let databases = 0
    return {
      pid,
      port,
      headers: '',
      // The first entry makes it.
      createDatabase: async () => `d${databases++}`,
      get: (database, key) => ({ method: 'GET', path: `/${database}/${key}` }),
      put: (database, key) => ({ method: 'PUT', path: `/${database}/${key}`, body: json({ value: VALUE }) }),
      sql: (database, sql, params) => ({
        method: 'POST',
        path: `/${database}/`,
        body: json({ sql, params }),
      }),
      stop,
      complaint: () =>
        fs
          .readFileSync(logFile, 'utf8')
          .match(/^\w*Error: .*$/gm)
          ?.at(-1) ?? '',
    }
  },
})

export const peer = bare('http-baseline.ts', '')

/** With what cellstore has in common: a statement that never ends, or a crash in SQLite, does not stop what listens. */
export const peerInTwoProcesses = bare('http-baseline-child.ts', ' in a child process')
