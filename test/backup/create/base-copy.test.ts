import fs from 'node:fs'
import { describe, expect, test } from 'vitest'
import type { Segment } from '../../../src/backup/changes/log/segments.ts'
import { BaseCopy } from '../../../src/backup/create/base-copy.ts'
import {
  type DatabaseReader,
  FileDatabaseReader,
  OpenDatabaseReader,
} from '../../../src/backup/create/database-reader.ts'
import { applyLog } from '../../../src/backup/restore/build/restore-database.ts'
import { DatabaseUnderCopy, digestOfFile } from '../../support/backup/database-under-copy.ts'
import { countOf } from '../../support/counts.ts'
import { Random } from '../../support/random.ts'
import { seededRandom } from '../../support/seed.ts'
import { tempDirectory } from '../../support/temp-directory.ts'

const RUNS = countOf('CELLSTORE_BASE_COPIES')

/** The copy before and after its logs, and what the database held at the cut. */
async function copyUnderWrites(random: Random, maxSteps = 3) {
  const under = new DatabaseUnderCopy(random)
  const copy = new BaseCopy(tempDirectory())
  const start = await under.cuts.beginBase(false)
  const sizes = new Set([start.size])
  const reader = under.between(new OpenDatabaseReader(under.database), maxSteps)
  await copy.read(
    {
      read: async (bytes, offset) => {
        const read = await reader.read(bytes, offset)
        sizes.add(fs.statSync(start.databasePath).size)
        return read
      },
      close: () => reader.close(),
    },
    start.size,
  )
  const torn = digestOfFile(copy.path)
  const cut = await under.cuts.endBase(start.id, 'version')
  const expected = under.digest()
  await copy.redo(JSON.parse(JSON.stringify(cut.segments)))
  const result = digestOfFile(copy.path)
  expect(copy.size).toBe(fs.statSync(copy.path).size)
  await copy.dispose()
  return { torn, expected, result, logs: cut.segments.length, sizes }
}

describe('A copy that is made while the database is written, with checkpoints and VACUUM (invariant 10),', () => {
  test(`is exactly the database at the cut, in ${RUNS} runs; without its logs it is torn`, {
    timeout: 180_000 + RUNS * 10_000,
  }, async () => {
    const seeds = seededRandom()
    const counts = { torn: 0, logs: 0 }
    for (let run = 0; run < RUNS; run++) {
      const seed = seeds.below(2 ** 31)
      const { torn, expected, result, logs } = await copyUnderWrites(new Random(seed))
      expect(result, `run ${run}, seed ${seed}`).toEqual({ digest: expected, check: 'ok' })
      counts.logs += logs
      if (torn === undefined || torn.check !== 'ok') counts.torn++
      else expect(torn.digest).not.toBe(expected)
    }
    console.info(JSON.stringify(counts))
    expect(counts.torn).toBeGreaterThan(RUNS * 0.8)
  })

  test('is the database itself if nothing is written', async () => {
    const { torn, expected, result, logs } = await copyUnderWrites(seededRandom(), 0)
    expect(torn).toEqual({ digest: expected, check: 'ok' })
    expect(result).toEqual(torn)
    expect(logs).toBe(0)
  })

  test('is exact where VACUUM cuts the file off under the reads, and where it grows again after that', async () => {
    const random = seededRandom()
    for (const growsAgain of [false, true]) {
      const under = new DatabaseUnderCopy(random)
      const { database } = under
      database.sql('INSERT INTO alpha (n, x) VALUES (1000, zeroblob(3000000))')
      const copy = new BaseCopy(tempDirectory())
      const start = await under.cuts.beginBase(false)
      const file = await FileDatabaseReader.open(start.databasePath)
      const lengths: number[] = []
      const reader: DatabaseReader = {
        read: async (bytes, offset) => {
          if (offset > 0 && lengths.length === 1) {
            database.sql('DELETE FROM alpha')
            database.exec('VACUUM')
            database.checkpoints.run('TRUNCATE')
          }
          lengths.push(await file.read(bytes, offset))
          return lengths.at(-1) as number
        },
        close: () => file.close(),
      }
      await copy.read(reader, start.size)
      expect(lengths.at(-1)).toBeLessThan(1_048_576)
      if (growsAgain) database.sql('INSERT INTO alpha (n, x) VALUES (2000, randomblob(4000000))')
      const { segments } = await under.cuts.endBase(start.id, 'version')
      const expected = under.digest()
      await copy.redo(segments)
      expect(digestOfFile(copy.path)).toEqual({ digest: expected, check: 'ok' })
      expect(copy.size > start.size).toBe(growsAgain)
      await copy.dispose()
      // Last: it drops SQLite's locks on the file (invariant 4).
      await reader.close()
    }
  })

  test('is exact where SQLite, given one log after the other, finds the copy damaged', async () => {
    const under = new DatabaseUnderCopy(seededRandom())
    const { database } = under
    const copy = new BaseCopy(tempDirectory())
    const start = await under.cuts.beginBase(false)
    // The first log's schema points to pages that the second one moves.
    database.sql('INSERT INTO alpha (x) VALUES (randomblob(100000))')
    database.checkpoints.run('TRUNCATE')
    for (let i = 0; i < 40; i++) database.sql(`DROP TABLE other_${i}`)
    database.exec('VACUUM')
    database.checkpoints.run('TRUNCATE')
    await copy.read(new OpenDatabaseReader(database), start.size)
    const { segments } = await under.cuts.endBase(start.id, 'version')
    const [first] = segments as [Segment]
    fs.copyFileSync(copy.path, `${copy.path}-sqlite`)
    fs.copyFileSync(first.path, `${copy.path}-sqlite-wal`)
    expect(() => applyLog(`${copy.path}-sqlite`, 'wal', first.frames)).toThrow()
    const expected = under.digest()
    await copy.redo(segments)
    expect(digestOfFile(copy.path)).toEqual({ digest: expected, check: 'ok' })
  })

  test('leaves no file when it is given up', async () => {
    const directory = tempDirectory()
    const under = new DatabaseUnderCopy(seededRandom())
    const copy = new BaseCopy(directory)
    const start = await under.cuts.beginBase(false)
    const abort = new AbortController()
    const reader = new OpenDatabaseReader(under.database)
    const stopped = copy.read(reader, start.size, { signal: abort.signal, onProgress: () => abort.abort() })
    await stopped.catch(() => {})
    await copy.dispose()
    expect(fs.readdirSync(directory)).toEqual([])
  })
})
