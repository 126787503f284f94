import { spawn } from 'node:child_process'
import { createClient } from 'redis'
import { freePort } from '../../../test/support/free-port.ts'
import { packageVersion, programOnPath, programVersion } from '../packages.ts'
import type { LibraryPeer } from './library-peer.ts'

const program = () => programOnPath('redis-server', 'apt-get install redis-server')

/** A server of its own beside the program. Each command is in its log, on disk, before it is answered. */
export const peer: LibraryPeer = {
  version: () =>
    `Redis ${/v=(\S+)/.exec(programVersion(program(), '--version'))?.[1]}, appendfsync always; ${packageVersion('redis')}`,
  async open(directory) {
    const port = await freePort()
    const settings = {
      port,
      bind: '127.0.0.1',
      dir: directory,
      appendonly: 'yes',
      appendfsync: 'always',
      save: '',
    }
    const args = Object.entries(settings).flatMap(([name, value]) => [`--${name}`, String(value)])
    const server = spawn(program(), args, { stdio: 'ignore' })
    const client = createClient({ socket: { host: '127.0.0.1', port } })
    // The client tries again until the server listens.
    client.on('error', () => {})
    await client.connect()
    return {
      get: (key) => client.get(key),
      put: (key, value) => client.set(key, value),
      incr: (key) => client.incr(key),
      close: async () => {
        await client.close()
        server.kill()
      },
    }
  },
}
