import { type ChildProcess, execFile, spawn } from 'node:child_process'
import { once } from 'node:events'
import fs from 'node:fs'
import path from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { promisify } from 'node:util'
import Database from 'better-sqlite3'
import { packagedProgram, programVersion } from '../packages.ts'
import { type BackupPeer, NEWEST_TICK } from './backup-peer.ts'
import { openPlainFile, syncFile } from './plain-file.ts'

const run = promisify(execFile)
const program = () => packagedProgram('@flydotio/litestream-linux-x64', 'litestream')
const POLL_MS = 10
const TRIES_MAX = 6_000
/** More than its sync-interval, a second: all of a history is in the folder then. */
const HISTORY_REST_MS = 3_000

/** `litestream replicate` with its default settings, to a folder. A snapshot is its first one, of a new replica. */
export const peer: BackupPeer = {
  version: () => `Litestream ${programVersion(program(), 'version')}`,
  async open(directory) {
    const file = path.join(directory, 'store.db')
    const replica = path.join(directory, 'replica')
    const restored = path.join(directory, 'restored.db')
    const configuration = path.join(directory, 'litestream.yml')
    const replicas = [{ type: 'file', path: replica }]
    // JSON is YAML.
    fs.writeFileSync(configuration, JSON.stringify({ dbs: [{ path: file, replicas }] }))
    const { write, close } = openPlainFile(file)
    let replicating: ChildProcess | undefined

    const begin = async () => {
      fs.rmSync(replica, { recursive: true, force: true })
      fs.rmSync(path.join(directory, '.store.db-litestream'), { recursive: true, force: true })
      replicating = spawn(program(), ['replicate', '-config', configuration], { stdio: 'ignore' })
      for (let tries = 0; !hasSnapshot(replica); tries++) {
        if (tries === TRIES_MAX || replicating.exitCode !== null) throw new Error('it makes no snapshot')
        await sleep(POLL_MS)
      }
    }
    const end = async () => {
      const exited = replicating === undefined ? undefined : once(replicating, 'exit')
      replicating?.kill('SIGINT')
      replicating = undefined
      await exited
    }
    const restore = async (...args: string[]) => {
      fs.rmSync(restored, { force: true })
      await run(program(), ['restore', '-config', configuration, '-o', restored, ...args, file])
      syncFile(restored)
    }
    return {
      write,
      snapshot: async () => {
        await begin()
        await end()
      },
      restore,
      beginHistory: begin,
      endHistory: async () => {
        await sleep(HISTORY_REST_MS)
        await end()
      },
      restoreTo: async (time) => {
        await restore('-timestamp', new Date(time).toISOString())
        return newestTick(restored)
      },
      close: async () => {
        await end()
        close()
      },
    }
  },
}

function hasSnapshot(replica: string): boolean {
  const generations = path.join(replica, 'generations')
  if (!fs.existsSync(generations)) return false
  return fs
    .readdirSync(generations)
    .map((each) => path.join(generations, each, 'snapshots'))
    .some((folder) => fs.existsSync(folder) && fs.readdirSync(folder).some((name) => name.endsWith('.lz4')))
}

function newestTick(file: string): number {
  const database = new Database(file, { readonly: true })
  try {
    return database.prepare(NEWEST_TICK).pluck().get() as number
  } finally {
    database.close()
  }
}
