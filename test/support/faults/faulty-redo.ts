import { randomBytes } from 'node:crypto'
import fs from 'node:fs'
import path from 'node:path'
import { StorePaths } from '../../../src/base/files/store-paths.ts'
import {
  encodeBatch,
  encodeFileHead,
  HEAD_BYTES,
  type LogEntry,
  type LogRecord,
  readLog,
} from '../../../src/commit-log/log-format.ts'
import { removeLogs } from '../../../src/commit-log/redo.ts'

/** Ways to get the redo of commit logs wrong, below a folder with a store in `data`. */

export function redoNothing(folder: string): void {
  removeLogs(pathsIn(folder).commitLogs)
}

/** The newest record of each log is not there. */
export function leaveOneOut(folder: string): void {
  for (const file of logsIn(folder)) {
    const records = recordsOf(file).slice(0, -1)
    const generation = randomBytes(8)
    const batches = records.map((record, i) =>
      encodeBatch([record as LogRecord], { generation, sequence: i + 1, time: 0 }),
    )
    const head = encodeFileHead(generation, HEAD_BYTES)
    fs.writeFileSync(file, Buffer.concat([head, ...batches]))
  }
}

/** Every record is written to the cell's WAL, also where that is of a later generation. */
export function redoOverNewer(folder: string): void {
  const paths = pathsIn(folder)
  for (const record of logsIn(folder).flatMap(recordsOf)) {
    const { wal } = paths.cell(record.cellId)
    if (!fs.existsSync(wal) || record.bytes === undefined) continue
    const fd = fs.openSync(wal, 'r+')
    fs.writeSync(fd, record.bytes, 0, record.length, record.offset)
    fs.closeSync(fd)
  }
  removeLogs(paths.commitLogs)
}

function pathsIn(folder: string): StorePaths {
  return new StorePaths(path.join(folder, 'data'))
}

function logsIn(folder: string): string[] {
  const { commitLogs } = pathsIn(folder)
  const names = fs.existsSync(commitLogs) ? fs.readdirSync(commitLogs) : []
  return names.map((name) => path.join(commitLogs, name))
}

function recordsOf(file: string): LogEntry[] {
  return readLog(fs.readFileSync(file)).records
}
