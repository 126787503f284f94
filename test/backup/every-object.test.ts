import fs from 'node:fs'
import path from 'node:path'
import { beforeEach, describe, expect, test } from 'vitest'
import { CellError } from '../../src/errors.ts'
import type { CellStore } from '../../src/store/cell-store.ts'
import { addRow, createLedger, notes, ScratchPlace } from '../support/backup/scratch-store.ts'
import { KeptLog } from '../support/kept-log.ts'
import { filesBelow } from '../support/temp-directory.ts'
import { rejectedBy } from '../support/thrown.ts'

const DAY_MS = 86_400_000
const NOTES = ['marks', 'proven', 'plan']

const place = ScratchPlace.perTest()
let log: KeptLog
/** The cell, and another one of which everything is stored too. */
let ids: string[]
let storeId: string
/** What each version of the cell holds. */
let contents: Map<string, string[]>

/** A bucket with an object of every kind. */
beforeEach(async () => {
  log = new KeptLog()
  contents = new Map()
  const store = await place.create({ backups: { keep: 'all:1h', prune: false } })
  storeId = store.id
  const cells = [createLedger(store), createLedger(store)]
  ids = cells.map(({ id }) => id)
  for (const cell of cells) {
    for (const note of ['first', 'second', 'base', 'one', 'two']) {
      place.clock.advance(2 * DAY_MS)
      addRow(cell, note, 3_000)
      const { version } = await store.backups[
        note === 'second' || note === 'base' ? 'snapshot' : 'incremental'
      ](cell.id)
      if (cell === cells[0]) contents.set(version, notes(cell))
      store.accounts.create()
      await store.core.catalogStored()
    }
    const [first, , base] = (await store.backups.list(cell.id)).backups
      .map(({ version }) => version)
      .reverse()
    await store.retention?.setPlan(cell.id, 'all:2h')
    await store.backups.verify(cell.id)
    await store.retention?.prune(cell.id)
    await store.retention?.pin(cell.id, first as string)
    await store.backups.restore(cell.id, { version: base as string })
  }
  await store.core.catalogStored()
  await store.close()
})

function fileOf(key: string): string {
  return path.join(place.objects, key)
}

function keysOf(kind: string, id = ids[0] as string): string[] {
  return filesBelow(place.objects).filter((key) => key.startsWith(`snapshots/${id}/${kind}-`))
}

/** Damages one object, looks, and puts it back. */
async function during(key: string, bytes: Buffer | undefined, look: () => Promise<void>): Promise<void> {
  const whole = fs.readFileSync(fileOf(key))
  if (bytes === undefined) fs.rmSync(fileOf(key))
  else fs.writeFileSync(fileOf(key), bytes)
  await look()
  fs.writeFileSync(fileOf(key), whole)
}

/** One flipped bit in some bytes, all lengths of some, and another object of the same kind. */
function* damages(key: string, other: string, every: number): Generator<[string, Buffer]> {
  const bytes = fs.readFileSync(fileOf(key))
  for (let at = 0; at < bytes.length; at += every) {
    const flipped = Buffer.from(bytes)
    flipped[at] = (flipped[at] as number) ^ (1 << (at % 8))
    yield [`flipped at ${at}`, flipped]
  }
  for (let at = 0; at < bytes.length - 1; at += every * 5) yield [`cut at ${at}`, bytes.subarray(0, at)]
  yield ['swapped', fs.readFileSync(fileOf(other))]
}

function expectNamed(error: CellError, key: string, what: string): void {
  expect([error.code, error.message], what).toEqual(['backup_corrupt', expect.stringContaining(key)])
}

function isFlippedName(whole: string, damaged: string): boolean {
  const [body, checksum] = whole.split('checksum') as [string, string]
  return damaged.startsWith(body) && damaged.endsWith(checksum) && damaged.length === whole.length
}

async function onEmptyNode(look: (store: CellStore) => void | Promise<void>): Promise<void> {
  place.loseData()
  log = new KeptLog()
  await place.directory.use(place.open({ log, backups: { prune: false } }), look)
}

describe('Of all objects of a bucket, each deleted, cut, swapped and flipped (invariants 10, 14):', () => {
  test('a version of a cell: what needs it is refused by its name, everything else restores exactly', async () => {
    const versions = [...contents.keys()]
    const [id, otherId] = ids as [string, string]
    for (const [i, key] of versions.entries()) {
      const others = [versions[(i + 1) % versions.length] as string, keysOf('backup', otherId)[i] as string]
      const cases: [string, Buffer | undefined][] = [['deleted', undefined]]
      for (const other of others) cases.push(...damages(key, other, 3_000))
      for (const [what, bytes] of cases) {
        await during(key, bytes, async () => {
          const store = await place.open({ backups: { prune: false } })
          for (const [version, content] of contents) {
            const chain = versions.indexOf(version) < 2 ? [] : versions.slice(2, versions.indexOf(version))
            const restoring = store.backups.restore(id, { version })
            if (version === key && bytes === undefined) {
              expect((await rejectedBy(restoring)).code).toBe('backup_not_found')
            } else if (version === key || chain.includes(key)) {
              expectNamed(await rejectedBy(restoring), key, `${key} ${what}`)
            } else {
              await restoring
              expect(notes(store.openCell(id))).toEqual(content)
            }
          }
          await store.close()
        })
      }
    }
  })

  test.each(NOTES)(
    'a note of retention, %s: nothing is removed by it, and the refusal names it',
    async (kind) => {
      const store = await place.open({ backups: { keep: 'all:1h', prune: false } })
      const [id] = ids as [string]
      const look = async () => store.retention?.prune(id, { dryRun: true })
      const whole = await look()
      const [key, other] = ids.map((each) => keysOf(kind, each)[0]) as [string, string]
      expect(whole?.versions.map(({ action }) => action)).toContain('remove')
      for (const [what, bytes] of damages(key, other, 1)) {
        await during(key, bytes, async () => {
          const outcome: unknown = await look().catch((error) => error)
          // One flip in the checksum's own name leaves all that counts.
          if (outcome instanceof CellError) expectNamed(outcome, key, `${key} ${what}`)
          else expect([what, outcome]).toEqual([expect.stringContaining('flipped'), whole])
        })
      }
      // Lost marks cost a day.
      if (kind !== 'marks') return
      await during(key, undefined, async () => {
        const { versions = [] } = (await look()) ?? {}
        expect(versions.map(({ action }) => action)).not.toContain('remove')
      })
    },
  )

  test('a pin and the mark of a restore: the key says all, whatever is in it', async () => {
    for (const key of [...keysOf('pin'), ...keysOf('restored')]) {
      for (const [, bytes] of damages(key, keysOf('backup')[0] as string, 50)) {
        await during(key, bytes, async () => {
          await onEmptyNode(async (store) => {
            await store.openCell(ids[0] as string).ensureLocal()
            expect(notes(store.openCell(ids[0] as string))).toEqual(['first', 'second', 'base'])
            const result = await store.retention?.prune(ids[0] as string, { dryRun: true })
            expect(result?.versions.at(-1)).toMatchObject({ reason: 'pinned' })
          })
        })
      }
    }
  })

  test('store.json: no node starts by another one than was written', async () => {
    const elsewhere = new ScratchPlace()
    await elsewhere.directory.use(elsewhere.create(), () => {})
    fs.copyFileSync(path.join(elsewhere.objects, 'store.json'), fileOf('probe'))
    const whole = fs.readFileSync(fileOf('store.json'), 'utf8')
    for (const isEmpty of [false, true]) {
      for (const [what, bytes] of [...damages('store.json', 'probe', 7), ['deleted', undefined] as const]) {
        // The last line break.
        if (bytes?.toString().trim() === whole.trim()) continue
        await during('store.json', bytes, async () => {
          if (isEmpty) place.loseData()
          const start = place.openOrCreate({ objectStoreWaitMs: 1 })
          // One flip in the checksum's own name leaves all that counts.
          if (isFlippedName(whole, String(bytes))) {
            await place.directory.use(start, (store) => expect(store.id).toBe(storeId))
            return
          }
          const error = await rejectedBy(start)
          expect(error.code, what).toBe('object_store_mismatch')
          if (what !== 'swapped') expect(error.message, what).toContain('store.json')
          if (isEmpty) expect(fs.existsSync(place.data), what).toBe(false)
        })
      }
    }
  })

  test('a version of the catalog: one that is whole comes back, and the log names each that is not', async () => {
    const versions = keysOf('backup', storeId)
    const newest = versions.at(-1) as string
    const some = [1, 2, versions.length - 2, versions.length - 1]
    for (const [key, other] of some.map((i) => [versions[i], versions[i - 1]] as [string, string])) {
      for (const [what, bytes] of damages(key, other, 2_500)) {
        place.loseData()
        await during(key, bytes, async () => {
          log = new KeptLog()
          const opened = await place.open({ log, backups: { prune: false } }).catch((error) => error)
          // All the others rest on the base.
          if (opened instanceof CellError) return expectNamed(opened, key, what)
          const named = log.errors.filter(({ err }) => err instanceof CellError && err.message.includes(key))
          expect(named.length > 0, `${key} ${what}`).toBe(
            log.errors.some(({ version }) => version === newest),
          )
          if (key === newest) expect(named, what).not.toEqual([])
          await opened.close()
          // What the empty node stored is not part of the case.
          for (const each of keysOf('backup', storeId)) if (!versions.includes(each)) fs.rmSync(fileOf(each))
        })
      }
    }
  })
})
