import fs from 'node:fs'
import path from 'node:path'
import Database from 'better-sqlite3'
import { beforeEach, describe, expect, onTestFinished, test } from 'vitest'
import { Segments } from '../../../src/backup/changes/log/segments.ts'
import { parseWalHeader, WalReader, walBytes } from '../../../src/engine/wal/wal-file.ts'
import { tempDirectory } from '../../support/temp-directory.ts'

let directory: string
let file: string
let connection: Database.Database
let segments: Segments

beforeEach(() => {
  directory = tempDirectory()
  file = path.join(directory, 'live.db')
  connection = new Database(file)
  onTestFinished(() => void connection.close())
  connection.pragma('journal_mode = WAL')
  connection.pragma('wal_autocheckpoint = 0')
  connection.exec('CREATE TABLE t (n INTEGER PRIMARY KEY, x)')
  connection.pragma('wal_checkpoint(TRUNCATE)')
  segments = new Segments(path.join(directory, 'segments'))
})

const wal = () => `${file}-wal`

function add(text: string): number {
  connection.prepare('INSERT INTO t (x) VALUES (?)').run(text)
  return frames()
}

function frames(): number {
  const [state] = connection.pragma('wal_checkpoint(NOOP)') as { log: number }[]
  return state?.log ?? 0
}

/** Opens a copy of an earlier state of the file with a kept log beside it. */
function recovered(base: string, logs: readonly string[]): unknown[] {
  const copy = path.join(tempDirectory(), 'copy.db')
  fs.copyFileSync(base, copy)
  for (const log of logs) {
    fs.copyFileSync(log, `${copy}-wal`)
    const opened = new Database(copy)
    opened.prepare('SELECT count(*) FROM t').get()
    opened.pragma('wal_checkpoint(TRUNCATE)')
    opened.close()
  }
  const opened = new Database(copy)
  const rows = opened.prepare('SELECT x FROM t ORDER BY n').pluck().all()
  opened.close()
  return rows
}

describe('A kept log', () => {
  test('is what SQLite needs to get from the file to the last commit', () => {
    const base = path.join(directory, 'base.db')
    fs.copyFileSync(file, base)
    const count = add('one')
    expect(segments.keep(wal(), count, 0, 0)).toBe(1)
    expect(
      recovered(
        base,
        segments.list().map((each) => each.path),
      ),
    ).toEqual(['one'])
  })

  test('grows in place while the log does, and by what the log has grown only', () => {
    const base = path.join(directory, 'base.db')
    fs.copyFileSync(file, base)
    segments.keep(wal(), add('one'), 0, 0)
    const [first] = segments.list()
    const inode = fs.statSync(first?.path as string).ino
    expect(segments.keep(wal(), add('two'), 1, 0)).toBe(1)
    const list = segments.list()
    expect(list).toHaveLength(1)
    expect(fs.statSync(list[0]?.path as string).ino).toBe(inode)
    expect(recovered(base, [list[0]?.path as string])).toEqual(['one', 'two'])
  })

  test('is left alone when nothing was added to the log', () => {
    const count = add('one')
    segments.keep(wal(), count, 0, 0)
    const before = fs.statSync(segments.list()[0]?.path as string, { bigint: true }).mtimeNs
    expect(segments.keep(wal(), count, 1, 0)).toBe(1)
    expect(fs.statSync(segments.list()[0]?.path as string, { bigint: true }).mtimeNs).toBe(before)
  })

  test('stays as it is once it is sealed: what follows is another segment, whole again', () => {
    const base = path.join(directory, 'base.db')
    fs.copyFileSync(file, base)
    segments.keep(wal(), add('one'), 0, 0)
    expect(segments.keep(wal(), add('two'), 1, 1)).toBe(2)
    const paths = segments.list().map((each) => each.path)
    expect(recovered(base, paths.slice(0, 1))).toEqual(['one'])
    expect(recovered(base, paths)).toEqual(['one', 'two'])
  })

  test('loses what an interrupted growth left at its end', () => {
    const base = path.join(directory, 'base.db')
    fs.copyFileSync(file, base)
    segments.keep(wal(), add('one'), 0, 0)
    fs.appendFileSync(segments.list()[0]?.path as string, Buffer.alloc(9_999, 0xee))
    expect(segments.list()[0]?.size).toBe(walBytes(segments.list()[0]?.frames as number, 4_096))
    segments.keep(wal(), add('two'), 1, 0)
    const [grown] = segments.list()
    expect(fs.statSync(grown?.path as string).size).toBe(grown?.size)
    expect(recovered(base, [grown?.path as string])).toEqual(['one', 'two'])
  })

  test('does not grow by a log that was overwritten under the same salts, as after a power loss', () => {
    segments.keep(wal(), add('one'), 0, 0)
    const path1 = segments.list()[0]?.path as string
    // The first frame's checksum is another one now.
    const fd = fs.openSync(path1, 'r+')
    fs.writeSync(fd, Buffer.from([1, 2, 3, 4]), 0, 4, 32 + 16)
    fs.closeSync(fd)
    const count = add('two')
    expect(() => segments.keep(wal(), count, 1, 0)).toThrow(/overwritten/)
  })

  test('has a hole where nobody needs its frames, everything else in its place, and grows', () => {
    add('one')
    const shipped = add('two')
    segments.keep(wal(), add('three'), 0, 0, shipped)
    expect(segments.keep(wal(), add('four'), 1, 0, 1)).toBe(1)
    const kept = fs.readFileSync(segments.list()[0]?.path as string)
    const log = fs.readFileSync(wal())
    const [head, rest] = [32, walBytes(shipped, 4_096)]
    expect(kept.subarray(0, head).equals(log.subarray(0, head))).toBe(true)
    expect(kept.subarray(head, rest).every((byte) => byte === 0)).toBe(true)
    expect(kept.subarray(rest).equals(log.subarray(rest, kept.length))).toBe(true)
    expect(kept.length).toBe(walBytes(segments.list()[0]?.frames as number, 4_096))
  })

  test('is refused where the log ends within a transaction, is of another generation, or too short', () => {
    connection.exec('BEGIN')
    for (let i = 0; i < 100; i++) connection.prepare('INSERT INTO t (x) VALUES (randomblob(3000))').run()
    connection.exec('COMMIT')
    const count = frames()
    expect(count).toBeGreaterThan(10)
    expect(() => segments.keep(wal(), count - 1, 0, 0)).toThrow(/commit/)
    connection.pragma('wal_checkpoint(PASSIVE)')
    add('begins the log anew, and leaves old frames behind its end')
    expect(() => segments.keep(wal(), count, 0, 0)).toThrow(/commit/)
    expect(() => segments.keep(wal(), count + 100, 0, 0)).toThrow(/shorter/)
    expect(segments.list()).toEqual([])
  })

  test('is refused where there is no log', () => {
    fs.writeFileSync(path.join(directory, 'short'), 'no log')
    fs.writeFileSync(path.join(directory, 'other'), Buffer.alloc(4_096, 7))
    expect(() => new WalReader(path.join(directory, 'short'))).toThrow()
    expect(() => new WalReader(path.join(directory, 'other'))).toThrow(/header/)
  })

  test('has its salts and page size in its name', () => {
    const count = add('one')
    segments.keep(wal(), count, 6, 6)
    const header = parseWalHeader(fs.readFileSync(wal()))
    const [segment] = segments.list()
    expect(segment).toMatchObject({ sequence: 7, frames: count, ...header })
  })

  test('goes when it has been stored, and other files in the folder are nobody to it', () => {
    segments.keep(wal(), add('one'), 0, 0)
    segments.keep(wal(), add('two'), 1, 1)
    segments.keep(wal(), add('three'), 2, 2)
    fs.writeFileSync(path.join(directory, 'segments', 'incoming'), 'half a log')
    segments.keepOnly(({ sequence }) => sequence > 2)
    expect(segments.list().map(({ sequence }) => sequence)).toEqual([3])
    segments.keepOnly(() => false)
    expect(segments.list()).toEqual([])
    expect(fs.existsSync(path.join(directory, 'segments'))).toBe(false)
    segments.keepOnly(() => false)
  })
})
