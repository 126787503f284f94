/** Another program that opens every database of a store, reads, and closes it properly, again and again, as people do. */
import fs from 'node:fs'
import path from 'node:path'
import { setImmediate } from 'node:timers/promises'
import Database from 'better-sqlite3'

const [, , directory = ''] = process.argv
process.stdin.resume()
let stopped = false
process.stdin.once('end', () => {
  stopped = true
})

let reads = 0
while (!stopped) {
  for (const name of names()) {
    if (/(^|\/)(cell|catalog)\.db$/.test(name) && !stopped) read(path.join(directory, name))
    await setImmediate()
  }
}
process.stdout.write(`${reads}\n`)

function names(): string[] {
  try {
    return fs.readdirSync(directory, { recursive: true }).map(String)
  } catch {
    // A cell's folder was removed just now.
    return []
  }
}

function read(file: string): void {
  try {
    const connection = new Database(file, { fileMustExist: true, timeout: 1_000 })
    try {
      connection.prepare('SELECT count(*) FROM sqlite_schema').get()
      reads++
    } finally {
      connection.close()
    }
  } catch {
    // Deleted, replaced or locked just now.
  }
}
