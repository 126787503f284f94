import { execFile } from 'node:child_process'
import path from 'node:path'
import { promisify } from 'node:util'
import { programOnPath, programVersion } from '../packages.ts'
import type { BackupPeer } from './backup-peer.ts'
import { openPlainFile, syncFile } from './plain-file.ts'

const run = promisify(execFile)
const sqlite3 = () => programOnPath('sqlite3', 'apt-get install sqlite3')
const zstd = () => programOnPath('zstd', 'apt-get install zstd')

/** What an administrator writes into a cron job. It keeps no history, and proves nothing. */
export const peer: BackupPeer = {
  version: () => {
    const [compressor = ''] = /v[\d.]+/.exec(programVersion(zstd(), '--version')) ?? []
    return `sqlite3 ${programVersion(sqlite3(), '--version').split(' ')[0]} .backup, zstd ${compressor} -1`
  },
  async open(directory) {
    const file = path.join(directory, 'store.db')
    const { write, close } = openPlainFile(file)
    const copy = path.join(directory, 'copy.db')
    const restored = path.join(directory, 'restored.db')
    return {
      write,
      snapshot: async () => {
        await run(sqlite3(), [file, `.backup '${copy}'`])
        await run(zstd(), ['-1', '-q', '-f', copy, '-o', `${copy}.zst`])
        syncFile(`${copy}.zst`)
      },
      restore: async () => {
        await run(zstd(), ['-d', '-q', '-f', `${copy}.zst`, '-o', restored])
        syncFile(restored)
      },
      close: async () => close(),
    }
  },
}
