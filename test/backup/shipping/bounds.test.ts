import { randomUUID } from 'node:crypto'
import path from 'node:path'
import { beforeEach, describe, expect, test } from 'vitest'
import type { ManifestHead, ManifestLog } from '../../../src/backup/archive/manifest.ts'
import type { UnshippedLog } from '../../../src/backup/changes/log/cell-log.ts'
import { FileObjectStore } from '../../../src/backup/object-store/file/file-object-store.ts'
import {
  bufferBody,
  type GetOptions,
  type ObjectContent,
} from '../../../src/backup/object-store/object-store.ts'
import type { CellContents } from '../../../src/backup/restore/install/restored-mark.ts'
import { restorableRanges } from '../../../src/backup/restore/target/restorable-ranges.ts'
import { type RestoreTarget, RestoreTargets } from '../../../src/backup/restore/target/restore-target.ts'
import { joinLog } from '../../../src/backup/shipping/cell-pieces.ts'
import { makeLogObject } from '../../../src/backup/shipping/log/log-object.ts'
import { ShippingOrder, selectLogs } from '../../../src/backup/shipping/log-selection.ts'
import { CellLogs } from '../../../src/backup/shipping/stored/cell-logs.ts'
import { sha256OfObject } from '../../../src/backup/shipping/stored/last-log.ts'
import { LogIndex } from '../../../src/backup/shipping/stored/log-index.ts'
import { logKey, versionOf } from '../../../src/backup/versions/object-keys.ts'
import type { VersionIndex } from '../../../src/backup/versions/version-index.ts'
import { PassingStore } from '../../support/backup/object-store-decorators.ts'
import { WalCell } from '../../support/backup/wal-cell.ts'
import { FakeClock } from '../../support/fake-clock.ts'
import { tempDirectory } from '../../support/temp-directory.ts'

const DAY_MS = 86_400_000

let folder: string
let clock: FakeClock
let cell: WalCell
let store: FileObjectStore
let storeId: string
beforeEach(() => {
  folder = tempDirectory('cellstore-bounds')
  clock = new FakeClock()
  cell = new WalCell(folder, clock)
  store = new FileObjectStore({ root: path.join(folder, 'objects') })
  storeId = randomUUID()
  return () => cell.close()
})

const spool = () => ({ directory: path.join(folder, 'spool') })

/** Stores a log object. */
async function put(number: number, logs: UnshippedLog[], completeTo: number): Promise<void> {
  const place = { store_id: storeId, epoch: 1, number, previous: null }
  const { object } = await makeLogObject({ ...place, logs, completeTo, now: completeTo }, spool())
  if (object === undefined) throw new Error('Nothing was made.')
  await store.put(object.manifest.key, object.body)
  await object.dispose()
}

describe('A log object', () => {
  test('with as many pieces and commits as it has room for can be read', async () => {
    const [piece] = (cell.unshipped() as UnshippedLog).pieces
    if (piece === undefined) throw new Error('Nothing was committed.')
    const commits = Array.from({ length: 20 }, (): [number, number] => [4_294_967_295, 9_007_199_254_740_991])
    const collected = Array.from({ length: 4_001 }, (): UnshippedLog => {
      const [cellId, accountId, history] = [randomUUID(), randomUUID(), randomUUID()]
      return { cellId, accountId, history, pieces: [{ ...piece, sequence: 999_999_999_999, commits }] }
    })
    for (const [logs, pieces, of] of [
      [collected, 3_000, 60_000],
      [
        collected.map((log) => ({ ...log, pieces: [{ ...piece, commits: commits.slice(0, 15) }] })),
        4_000,
        60_000,
      ],
    ] as const) {
      const selected = selectLogs(logs, new ShippingOrder())
      expect(selected.isAll).toBe(false)
      expect(selected.logs).toHaveLength(pieces)
      expect(selected.logs.reduce((sum, log) => sum + (log.pieces[0]?.commits.length ?? 0), 0)).toBe(of)
      await put(pieces, selected.logs, clock.now())
      const key = logKey({ epoch: 1, number: pieces })
      const found = (await store.head(key)) as { size: number }
      const ref = { key, sizeBytes: found.size, epoch: 1, number: pieces, isMissing: false }
      const { cells } = await new LogIndex(store, storeId).manifest(ref)
      expect(cells).toHaveLength(pieces)
    }
  })
})

describe('A restore to a time', () => {
  /** What a cell that was quiet commits once its clock was set back, in the object after one that is complete. */
  async function foundAfter(completeTo: number): Promise<number> {
    const time = clock.now()
    const quiet = new WalCell(folder, clock)
    await put(1, [quiet.unshipped() as UnshippedLog], completeTo)
    quiet.close()
    await put(2, [cell.unshipped() as UnshippedLog], completeTo)
    const { cellId, history } = cell
    const wanted = { cellId, history, sequence: 0, after: null }
    const { wals } = await joinLog(new LogIndex(store, storeId), wanted, { until: time })
    return wals.length
  }

  test('reads on until an object is complete to more than a day after the time', async () => {
    expect(await foundAfter(clock.now() + DAY_MS)).toBe(1)
  })

  test('and no further', async () => {
    expect(await foundAfter(clock.now() + DAY_MS + 1)).toBe(0)
  })
})

/** What a listing and a restore see of a cell with versions that are made up: newest first. */
function versionsOf(count: number, log: (i: number) => Partial<ManifestLog>): ManifestHead[] {
  return Array.from({ length: count }, (_, i) => {
    const own = { history: cell.history, sequence: 0, frames: 0, at: 0, after: null, ...log(i) }
    const version = versionOf(cell.cellId, clock.now() - i * 1_000)
    return { version, created_at: new Date(own.at).toISOString(), log: own } as unknown as ManifestHead
  })
}

test('A listing claims a commit that is in the 500th last log object, and none before it, for which it would read too much', async () => {
  await put(1, [cell.unshipped() as UnshippedLog], clock.now())
  // Other cells of the node make all later objects.
  const other = new WalCell(folder, clock)
  const log = other.unshipped() as UnshippedLog
  const putOthers = async (from: number, to: number) => {
    for (let number = from; number <= to; number += 16) {
      const some = Array.from({ length: Math.min(16, to + 1 - number) }, (_, i) => number + i)
      await Promise.all(some.map((each) => put(each, [log], clock.now())))
    }
  }
  const restorableTo = async () => {
    const page = { cellId: cell.cellId, versions: versionsOf(1, () => ({})), newer: undefined, marks: [] }
    const [range] = await restorableRanges(new CellLogs(new LogIndex(store, storeId)), page, {})
    return range?.to
  }
  await putOthers(2, 500)
  expect(await restorableTo()).toBe(clock.now())
  await putOthers(501, 501)
  expect(await restorableTo()).toBe(0)
  other.close()
})

describe('A lost cell whose newest version is of another history than the newest log object', () => {
  async function last(versionsSince: number): Promise<RestoreTarget> {
    await put(1, [cell.unshipped() as UnshippedLog], clock.now())
    const heads = versionsOf(versionsSince + 1, (i) => (i < versionsSince ? { history: 'the next one' } : {}))
    const find = async (version: string) => heads.find((head) => head.version === version)
    const index = { manifest: find, restorable: find } as unknown as VersionIndex
    const versions = heads.map(({ version }) => ({ version, sizeBytes: 1 }))
    const contents = { versions, marks: [] } as unknown as CellContents
    return await new RestoreTargets(
      { index, logs: new CellLogs(new LogIndex(store, storeId)) },
      { cellId: cell.cellId, contents, goneAt: undefined, tenures: undefined },
      {},
    ).last()
  }

  test('comes back if one of the newest sixteen versions begins that history', async () => {
    expect((await last(15)).manifest.log?.history).toBe('the next one')
  })

  test('is refused if none does: the listing lacks it', async () => {
    await expect(last(16)).rejects.toMatchObject({ code: 'object_store_unavailable' })
  })
})

/** Each of the first answers is another one. */
class ChangingStore extends PassingStore {
  #left: number

  constructor(inner: FileObjectStore, changes: number) {
    super(inner)
    this.#left = changes
  }

  override async get(key: string, options?: GetOptions): Promise<ObjectContent | undefined> {
    const content = await super.get(key, options)
    if (content === undefined || this.#left === 0) return content
    const body = Buffer.from([this.#left--])
    async function* other() {
      yield body
    }
    return { size: 1, body: other() }
  }
}

describe('The hash of the last object', () => {
  const key = logKey({ epoch: 1, number: 1 })
  beforeEach(() => store.put(key, bufferBody(Buffer.from('a log object'))))

  test('is known once two of six answers in a row agree', async () => {
    const whole = await sha256OfObject(store, key)
    expect(await sha256OfObject(new ChangingStore(store, 4), key)).toBe(whole)
  })

  test('is not guessed after that', async () => {
    await expect(sha256OfObject(new ChangingStore(store, 5), key)).rejects.toMatchObject({
      code: 'object_store_unavailable',
    })
  })
})
