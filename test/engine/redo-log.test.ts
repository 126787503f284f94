import fs from 'node:fs'
import { open } from 'node:fs/promises'
import path from 'node:path'
import Database from 'better-sqlite3'
import { beforeEach, describe, expect, onTestFinished, test } from 'vitest'
import { redoLog } from '../../src/engine/wal/redo-log.ts'
import { walBytes } from '../../src/engine/wal/wal-file.ts'
import { tempDirectory } from '../support/temp-directory.ts'

let before: string
let log: string
let after: string
let frames: number

/** A database of 600 pages and more, the log of its changes, and what SQLite makes of both. */
beforeEach(() => {
  const directory = tempDirectory()
  const file = path.join(directory, 'live.db')
  ;[before, log, after] = ['before.db', 'log', 'after.db'].map((name) => path.join(directory, name)) as [
    string,
    string,
    string,
  ]
  const connection = new Database(file)
  connection.pragma('journal_mode = WAL')
  connection.pragma('wal_autocheckpoint = 0')
  connection.exec('CREATE TABLE t (n INTEGER PRIMARY KEY, x); INSERT INTO t (x) VALUES (zeroblob(2000000))')
  connection.pragma('wal_checkpoint(TRUNCATE)')
  fs.copyFileSync(file, before)
  for (let i = 0; i < 5; i++) connection.exec('UPDATE t SET x = randomblob(1200000 + 1000 * n)')
  connection.exec('VACUUM')
  fs.copyFileSync(`${file}-wal`, log)
  ;[{ log: frames }] = connection.pragma('wal_checkpoint(TRUNCATE)') as [{ log: number }]
  fs.copyFileSync(file, after)
  connection.close()
})

async function redone(count: number): Promise<number> {
  const handle = await open(before, 'r+')
  onTestFinished(() => handle.close())
  const size = await redoLog(log, count, handle)
  await handle.truncate(size)
  return size
}

describe('A log is written into a copy of the database', () => {
  test('as SQLite’s own checkpoint does it, to the byte', async () => {
    frames = Math.floor((fs.statSync(log).size - 32) / (4_096 + 24))
    expect(frames).toBeGreaterThan(600)
    expect(await redone(frames)).toBe(fs.statSync(after).size)
    expect(fs.readFileSync(before).equals(fs.readFileSync(after))).toBe(true)
  })

  test('only if every byte is what SQLite wrote', async () => {
    frames = Math.floor((fs.statSync(log).size - 32) / (4_096 + 24))
    const whole = fs.readFileSync(log)
    const flips = [
      0,
      5,
      13,
      17,
      25,
      33,
      37,
      41,
      49,
      2_000,
      walBytes(1, 4_096) + 4_000,
      walBytes(frames, 4_096) - 1,
    ]
    for (const at of flips) {
      const bytes = Buffer.from(whole)
      bytes[at] = (bytes[at] as number) ^ 1
      fs.writeFileSync(log, bytes)
      await expect(redone(frames), `byte ${at}`).rejects.toThrow('differs from what SQLite wrote')
    }
    fs.writeFileSync(log, whole.subarray(0, walBytes(frames, 4_096) - 1))
    await expect(redone(frames)).rejects.toThrow('differs from what SQLite wrote')
    fs.writeFileSync(log, whole)
    // Within a transaction.
    await expect(redone(frames - 1)).rejects.toThrow('differs from what SQLite wrote')
  })
})
