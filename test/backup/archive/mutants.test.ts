import { setImmediate } from 'node:timers/promises'
import { beforeEach, describe, expect, test } from 'vitest'
import { CellError } from '../../../src/errors.ts'
import type { CellStore } from '../../../src/store/cell-store.ts'
import type { Cell } from '../../../src/store/open/cell.ts'
import { archiveOf, blockEnds, manifestOf, memberOf } from '../../support/backup/archives.ts'
import { CorruptingStore, readObject } from '../../support/backup/object-store-decorators.ts'
import { addRow, createLedger, notes, ScratchPlace } from '../../support/backup/scratch-store.ts'
import { countOf } from '../../support/counts.ts'
import type { Random } from '../../support/random.ts'
import { seededRandom } from '../../support/seed.ts'

const SMALL_MUTANTS = countOf('CELLSTORE_MUTANTS')
const LARGE_MUTANTS = Math.ceil(SMALL_MUTANTS / 10)
const LIVE = ['what the cell holds now']

const place = ScratchPlace.perTest()
let corrupting: CorruptingStore
let store: CellStore
let cell: Cell
/** Base, first and second incremental. */
let chain: string[]

beforeEach(async () => {
  corrupting = new CorruptingStore(place.folder())
  store = await place.create({ objectStore: corrupting })
})

/** A chain of three, and a cell that has gone on since. */
async function makeChain(payloadBytes: number): Promise<void> {
  cell = createLedger(store)
  chain = []
  for (const note of ['one', 'two', 'three']) {
    addRow(cell, note, note === 'one' ? payloadBytes : 5_000)
    chain.push((await store.backups.incremental(cell.id)).version)
  }
  cell.sql('DELETE FROM ledger')
  addRow(cell, LIVE[0] as string)
}

function bytesOf(version: string): Promise<Buffer> {
  return readObject(corrupting.inner, version)
}

/** A store that has read none of the objects yet. */
async function freshStore(): Promise<void> {
  await store.close()
  store = await place.open({ objectStore: corrupting })
  cell = store.openCell(cell.id)
}

/** Restores the newest version: refused with the cell as it was, or exactly right. */
async function expectRefusedOrExact(what: string): Promise<'refused' | 'exact'> {
  try {
    await store.backups.restore(cell.id, { version: chain[2] as string })
  } catch (error) {
    if (!(error instanceof CellError)) throw new Error(`${what}: ${String(error)}`, { cause: error })
    expect(['backup_corrupt', 'backup_not_found'], `${what}: ${error.message}`).toContain(error.code)
    expect(notes(cell), what).toEqual(LIVE)
    return 'refused'
  }
  expect(notes(cell), what).toEqual(['one', 'two', 'three'])
  const whole = cell.sql<{ ok: number }>('SELECT sum(length(payload)) > 15000 AS ok FROM ledger').rows[0]?.ok
  expect(whole, what).toBe(1)
  cell.sql('DELETE FROM ledger')
  addRow(cell, LIVE[0] as string)
  return 'exact'
}

async function expectRefused(what: string): Promise<void> {
  await freshStore()
  expect(await expectRefusedOrExact(what), what).toBe('refused')
  // It goes on as if nothing had been.
  addRow(cell, 'and it is written')
  cell.sql("DELETE FROM ledger WHERE note = 'and it is written'")
}

describe('A damaged backup is refused, and the cell untouched (invariant 10):', () => {
  test('every kind of damage, in every part of every link', { timeout: 300_000 }, async () => {
    await makeChain(30_000)
    for (const version of chain) {
      const bytes = await bytesOf(version)
      for (const [what, mutant] of systematicMutants(bytes)) {
        corrupting.replaced.set(version, mutant)
        await expectRefused(`${what} of link ${chain.indexOf(version)}`)
      }
      corrupting.replaced.clear()
    }
    await freshStore()
    expect(await expectRefusedOrExact('nothing')).toBe('exact')
  })

  test('an object of another version, cell or store under this key', async () => {
    await makeChain(30_000)
    const other = createLedger(store)
    addRow(other, 'of another cell')
    const { version: ofOtherCell } = await store.backups.snapshot(other.id)
    const elsewhere = new ScratchPlace()
    const strangers = await elsewhere.create()
    const stranger = createLedger(strangers)
    const { version: ofOtherStore } = await strangers.backups.snapshot(stranger.id)
    const foreign = [
      ...(await Promise.all(chain.map(bytesOf))),
      await bytesOf(ofOtherCell),
      await readObject(elsewhere.folder(), ofOtherStore),
      // Of this cell and version, but in another store.
      await archiveOf(
        [memberOf('cell.db', Buffer.alloc(4_096))],
        manifestOf({
          cell_id: cell.id,
          version: chain[0] as string,
          database: { name: 'cell.db', size: 4_096 },
        }),
      ),
    ]
    for (const version of chain) {
      for (const [i, bytes] of foreign.entries()) {
        if (i === chain.indexOf(version)) continue
        corrupting.replaced.set(version, bytes)
        await expectRefused(`object ${i} as link ${chain.indexOf(version)}`)
      }
      corrupting.replaced.clear()
    }
  })

  test('a missing base, a missing link, and a version that is not there', async () => {
    await makeChain(30_000)
    for (const version of chain) {
      corrupting.replaced.set(version, undefined)
      await expectRefused(`without link ${chain.indexOf(version)}`)
      corrupting.replaced.clear()
    }
  })

  test('swapped links', async () => {
    await makeChain(30_000)
    const [first, second, third] = (await Promise.all(chain.map(bytesOf))) as [Buffer, Buffer, Buffer]
    corrupting.replaced.set(chain[1] as string, third)
    corrupting.replaced.set(chain[2] as string, second)
    await expectRefused('second and third')
    corrupting.replaced.set(chain[0] as string, second)
    corrupting.replaced.set(chain[1] as string, first)
    corrupting.replaced.delete(chain[2] as string)
    await expectRefused('first and second')
  })

  test('and it is neither listed nor counted: what it damages, it hides', async () => {
    await makeChain(30_000)
    corrupting.replaced.set(chain[1] as string, (await bytesOf(chain[1] as string)).subarray(0, 50))
    await freshStore()
    expect((await store.backups.list(cell.id)).backups.map(({ version }) => version)).toEqual([
      chain[2],
      chain[0],
    ])
    corrupting.replaced.set(chain[1] as string, undefined)
    await freshStore()
    expect((await store.backups.list(cell.id)).backups.map(({ version }) => version)).toEqual([chain[0]])
  })
})

describe('A mutant is refused or restores exactly the same rows (invariant 10):', () => {
  test(`${SMALL_MUTANTS} random ones of a small chain`, { timeout: SMALL_MUTANTS * 1_000 }, async () => {
    await makeChain(30_000)
    await tryMutants(seededRandom(), SMALL_MUTANTS)
  })

  test(`${LARGE_MUTANTS} random ones of a chain with many blocks`, {
    timeout: LARGE_MUTANTS * 10_000,
  }, async () => {
    await makeChain(18_000_000)
    expect(blockEnds(await bytesOf(chain[0] as string)).length).toBeGreaterThan(5)
    await tryMutants(seededRandom(), LARGE_MUTANTS)
  })
})

async function tryMutants(random: Random, count: number): Promise<void> {
  const objects = await Promise.all(chain.map(bytesOf))
  const outcomes = { refused: 0, exact: 0 }
  for (let i = 0; i < count; i++) {
    const link = random.below(chain.length)
    const [what, mutant] = randomMutant(random, objects, link)
    corrupting.replaced.set(chain[link] as string, mutant)
    // Some with nothing remembered of the manifests.
    if (i % 25 === 0) await freshStore()
    outcomes[await expectRefusedOrExact(`mutant ${i}, link ${link}: ${what}`)]++
    corrupting.replaced.clear()
    await setImmediate()
  }
  console.info(`of ${count} mutants ${outcomes.refused} were refused, ${outcomes.exact} restored exactly`)
  expect(outcomes.refused).toBeGreaterThan(count * 0.9)
}

/** Cut, flipped, swapped, doubled and padded at each part of the format. */
function systematicMutants(bytes: Buffer): [string, Buffer][] {
  const ends = blockEnds(bytes)
  const [manifestEnd, tableStart] = [ends[0] as number, ends.at(-2) as number]
  const flipped = (at: number, bit = 0x10) => {
    const mutant = Buffer.from(bytes)
    mutant[at] = (mutant[at] as number) ^ bit
    return mutant
  }
  const middle = (manifestEnd + tableStart) >> 1
  return [
    ['nothing', Buffer.alloc(0)],
    ['cut in the manifest', bytes.subarray(0, manifestEnd >> 1)],
    ['cut after the manifest', bytes.subarray(0, manifestEnd)],
    ['cut in the data', bytes.subarray(0, middle)],
    ['cut before the seek table', bytes.subarray(0, tableStart)],
    ['cut in the seek table', bytes.subarray(0, bytes.length - 5)],
    ['a byte short', bytes.subarray(0, -1)],
    ['a bit in the magic', flipped(0)],
    ['a bit in the manifest', flipped(manifestEnd >> 1)],
    ["a bit in the manifest's checksum", flipped(manifestEnd - 2)],
    ['a bit in the data', flipped(middle)],
    ['a bit in the block checksum', flipped(tableStart - 2)],
    ['a bit in the seek table', flipped(tableStart + 10)],
    ['a bit in the last byte', flipped(bytes.length - 1)],
    [
      'a zeroed sector',
      Buffer.concat([bytes.subarray(0, middle), Buffer.alloc(512), bytes.subarray(middle + 512)]),
    ],
    [
      'blocks swapped',
      Buffer.concat([
        bytes.subarray(manifestEnd, tableStart),
        bytes.subarray(0, manifestEnd),
        bytes.subarray(tableStart),
      ]),
    ],
    ['the manifest twice', Buffer.concat([bytes.subarray(0, manifestEnd), bytes])],
    ['the data twice', Buffer.concat([bytes.subarray(0, tableStart), bytes.subarray(manifestEnd)])],
    ['the whole twice', Buffer.concat([bytes, bytes])],
    ['the data gone', Buffer.concat([bytes.subarray(0, manifestEnd), bytes.subarray(tableStart)])],
    ['junk at the end', Buffer.concat([bytes, Buffer.from('junk')])],
    ['junk at the front', Buffer.concat([Buffer.from('junk'), bytes])],
    ['a skippable block at the end', Buffer.concat([bytes, Buffer.from('502a4d1804000000abcdabcd', 'hex')])],
    [
      'a skippable block in the middle',
      Buffer.concat([
        bytes.subarray(0, manifestEnd),
        Buffer.from('502a4d1804000000abcdabcd', 'hex'),
        bytes.subarray(manifestEnd),
      ]),
    ],
  ]
}

function randomMutant(random: Random, objects: readonly Buffer[], link: number): [string, Buffer] {
  const bytes = Buffer.from(objects[link] as Buffer)
  const at = random.below(bytes.length)
  const length = 1 + random.below(Math.min(bytes.length - at, random.chance(0.5) ? 8 : 4_096))
  const [head, part, tail] = [
    bytes.subarray(0, at),
    bytes.subarray(at, at + length),
    bytes.subarray(at + length),
  ]
  switch (random.below(8)) {
    case 0:
      return [`cut at ${at}`, head]
    case 1:
      bytes[at] = (bytes[at] as number) ^ (1 << random.below(8))
      return [`a bit flipped at ${at}`, bytes]
    case 2:
      return [`${length} bytes gone at ${at}`, Buffer.concat([head, tail])]
    case 3:
      return [`${length} bytes twice at ${at}`, Buffer.concat([head, part, part, tail])]
    case 4:
      return [`${length} zeroes at ${at}`, Buffer.concat([head, Buffer.alloc(length), tail])]
    case 5: {
      const noise = Buffer.from(Array.from({ length }, () => random.below(256)))
      return [`${length} bytes of noise at ${at}`, Buffer.concat([head, noise, tail])]
    }
    case 6: {
      // Never as itself: that would be no mutant.
      const step = 1 + random.below(objects.length - 1)
      const other = objects[(link + step) % objects.length] as Buffer
      return [
        `goes on as another object at ${at}`,
        Buffer.concat([head, other.subarray(Math.min(at, other.length))]),
      ]
    }
    default:
      return [`${length} bytes more at the end`, Buffer.concat([bytes, part])]
  }
}
