import fs from 'node:fs'
import { type FileHandle, open } from 'node:fs/promises'
import { describe, expect, test, vi } from 'vitest'
import { systemClock } from '../../../src/base/clock.ts'
import { newCellId, StorePaths } from '../../../src/base/store-paths.ts'
import { quarantineUnstored } from '../../../src/engine/quarantine.ts'
import { EarlyFlushes } from '../../../src/workers/node/early-flushes.ts'
import { tempDirectory } from '../../support/temp-directory.ts'
import { until } from '../../support/until.ts'
import { openWorkerStore } from '../../support/worker-store.ts'

const LONG_BYTES = 8 * 1_048_576

/** The disk's answers to the node's flushes, in their order; after these it stores everything. */
async function flushesAnswer(...codes: (string | undefined)[]) {
  const handle: FileHandle = await open(import.meta.filename)
  const prototype: FileHandle = Object.getPrototypeOf(handle)
  await handle.close()
  return vi.spyOn(prototype, 'datasync').mockImplementation(async () => {
    const code = codes.shift()
    if (code !== undefined) throw Object.assign(new Error(`${code}: injected`), { code })
  })
}

function flushesOfOneCell() {
  const paths = new StorePaths(tempDirectory())
  const id = newCellId()
  const cell = paths.cell(id)
  fs.mkdirSync(cell.directory, { recursive: true })
  const failed = vi.fn()
  const flushes = new EarlyFlushes(systemClock, paths, failed)
  const look = async () => {
    flushes.look(id)
    while (flushes.underWay !== undefined) await flushes.underWay
  }
  const write = (file: string, bytes: number, changedAtS: number) => {
    fs.writeFileSync(file, '')
    fs.truncateSync(file, bytes)
    fs.utimesSync(file, changedAtS, changedAtS)
  }
  return { id, cell, paths, failed, flushes, look, write }
}

/** Each is a second later. */
let changes = 0

describe('What a worker writes for long', () => {
  test('is flushed once for each change of a long file, and a short or missing one never', async () => {
    const datasync = await flushesAnswer()
    const { cell, failed, look, write } = flushesOfOneCell()
    await look()
    write(cell.wal, LONG_BYTES - 1, 1)
    await look()
    expect(datasync).toHaveBeenCalledTimes(0)
    write(cell.wal, LONG_BYTES, 2)
    await look()
    await look()
    expect(datasync).toHaveBeenCalledTimes(1)
    write(cell.wal, LONG_BYTES, 3)
    write(cell.database, LONG_BYTES, 3)
    await look()
    expect(datasync).toHaveBeenCalledTimes(3)
    expect(failed).not.toHaveBeenCalled()
  })

  test('is not flushed while its log is cut: that would wait for the lock of the file, and all other cells with it', async () => {
    const datasync = await flushesAnswer()
    const { cell, look, write } = flushesOfOneCell()
    for (const [length, flushed] of [
      [3 * LONG_BYTES, 1],
      [2 * LONG_BYTES, 1],
      [LONG_BYTES, 1],
      [LONG_BYTES, 2],
      [LONG_BYTES + 1, 3],
    ] as const) {
      write(cell.wal, length, ++changes)
      await look()
      expect(datasync).toHaveBeenCalledTimes(flushed)
    }
  })

  test.runIf(process.platform === 'linux')(
    'is flushed although a read that held up its writer still waits, and that file is not read a second time',
    async () => {
      const datasync = await flushesAnswer()
      const answers: PromiseWithResolvers<void>[] = []
      datasync.mockImplementation(() => {
        const answer = Promise.withResolvers<void>()
        answers.push(answer)
        return answer.promise
      })
      const handle: FileHandle = await open(import.meta.filename)
      const read = vi.spyOn(Object.getPrototypeOf(handle) as FileHandle, 'read')
      await handle.close()
      read.mockImplementation(() => new Promise(() => {}))
      const { cell, look, write } = flushesOfOneCell()
      for (let i = 0; i < 2; i++) {
        write(cell.wal, LONG_BYTES, ++changes)
        const looked = look()
        await until(
          () => answers.length === i + 1 && read.mock.calls.length > 0,
          'the file is flushed and read',
        )
        answers[i]?.resolve()
        await looked
      }
      expect(read).toHaveBeenCalledTimes(1)
    },
  )

  test('ends with the flush that is under way when a worker has ended, however long others go on', async () => {
    const datasync = await flushesAnswer()
    const { id, cell, flushes, write } = flushesOfOneCell()
    write(cell.wal, LONG_BYTES, 1)
    flushes.look(id)
    // As somebody else's long statement does: the next look comes before this flush is over.
    flushes.look(id)
    await flushes.finish()
    write(cell.wal, LONG_BYTES, 2)
    await new Promise(setImmediate)
    expect(flushes.underWay).toBeUndefined()
    expect(datasync).toHaveBeenCalledTimes(1)
  })

  test.each(['EIO', 'ENOSPC', 'EDQUOT'])('is told of if the disk refuses it: %s', async (code) => {
    await flushesAnswer(code)
    const { id, cell, failed, look, write } = flushesOfOneCell()
    write(cell.wal, LONG_BYTES, 1)
    await look()
    expect(failed.mock.calls).toEqual([[id, expect.objectContaining({ code })]])
  })

  test('is told of while other cells wait for their flush, and nobody is left with a rejected promise', async () => {
    // A spy would look at what it returns, and so handle its rejection.
    const handle: FileHandle = await open(import.meta.filename)
    const prototype: FileHandle = Object.getPrototypeOf(handle)
    await handle.close()
    const { datasync } = prototype
    prototype.datasync = async () => {
      throw Object.assign(new Error('EIO: injected'), { code: 'EIO' })
    }
    const unhandled = vi.fn()
    process.on('unhandledRejection', unhandled)
    try {
      const { id, cell, failed, flushes, paths, write } = flushesOfOneCell()
      const others = [newCellId(), newCellId()]
      for (const { directory, wal } of [cell, ...others.map((other) => paths.cell(other))]) {
        fs.mkdirSync(directory, { recursive: true })
        write(wal, LONG_BYTES, ++changes)
      }
      for (const each of [id, ...others]) flushes.look(each)
      while (flushes.underWay !== undefined) await flushes.underWay
      await new Promise(setImmediate)
      expect(failed.mock.calls.map(([cellId]) => cellId)).toEqual([id, ...others])
      expect(unhandled).not.toHaveBeenCalled()
    } finally {
      process.off('unhandledRejection', unhandled)
      prototype.datasync = datasync
    }
  })

  test('is no failure of the disk where files can not be flushed at all', async () => {
    await flushesAnswer('EINVAL')
    const { cell, failed, look, write } = flushesOfOneCell()
    write(cell.wal, LONG_BYTES, 1)
    await look()
    expect(failed).not.toHaveBeenCalled()
  })

  test('and was refused by the disk, leaves a note, but none over what the worker knows that has the cell', () => {
    const { cell } = flushesOfOneCell()
    quarantineUnstored(cell, 1)
    const note = fs.readFileSync(cell.quarantine, 'utf8')
    expect(JSON.parse(note)).toEqual({ reason: 'io_error', since: 1 })
    quarantineUnstored(cell, 2)
    expect(fs.readFileSync(cell.quarantine, 'utf8')).toBe(note)
  })

  test('and was refused by the disk, before its worker was killed: the cell is proven whole before its next use (invariant 1)', async () => {
    const datasync = await flushesAnswer('EIO')
    const node = await openWorkerStore({ service: { sqlPolicy: 'trusted', limits: { holdMs: 60_000 } } })
    const { id } = node.store.createCell()
    const run = (sql: string) => node.service.execute(id, { op: 'sql', sql })
    await run('CREATE TABLE t (x)')
    await run('INSERT INTO t VALUES (1)')
    const endless = 'WITH RECURSIVE r (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM r)'
    const insert = run(`INSERT INTO t ${endless} SELECT randomblob(1000) FROM r`).catch(() => {})
    await until(() => datasync.mock.calls.length > 0, 'something is flushed')
    for (const pid of node.workers) process.kill(pid, 'SIGKILL')
    const said = (message: string) => node.log.some((line) => line.message.includes(message))
    await until(() => said('is proven whole'), 'the cell is proven whole')
    expect(said('the disk has failed under a cell')).toBe(true)
    void insert
    const paths = new StorePaths(node.store.paths.root).cell(id)
    expect(fs.existsSync(paths.quarantine)).toBe(false)
  })
})
