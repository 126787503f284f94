import { expect, test, vi } from 'vitest'
import { ScratchPlace } from '../support/backup/scratch-store.ts'
import { countOf } from '../support/counts.ts'
import { seededRandom } from '../support/seed.ts'

const STEPS = countOf('CELLSTORE_CLOCK_STEPS')
const YEAR_MS = 365 * 86_400_000

vi.setConfig({ testTimeout: 180_000 + STEPS * 500 })

test(`the clock stepped by up to a year, either way, again and again: an entry is there as long as its time has not come, and the newest backup is the one made last (invariants 11, 14; ${STEPS} steps)`, async () => {
  const random = seededRandom()
  const place = new ScratchPlace()
  // Retention goes by the age that the clock shows, and here it shows years.
  const settings = { backups: { prune: false } }
  let store = await place.create(settings)
  const { id } = store.createCell()
  /** When each entry expires. Once it was past, it may have been collected: the clock can't bring it back. */
  const expiry = new Map<string, number>()
  const maybeGone = new Set<string>()
  const versions: string[] = []
  for (let step = 0; step < STEPS; step++) {
    place.clock.step((random.chance(0.5) ? 1 : -1) * random.below(YEAR_MS))
    place.clock.advance(random.below(3_600_000))
    const cell = store.openCell(id)
    const now = place.clock.now()
    for (const [key, expiresAt] of expiry) {
      if (expiresAt <= now) maybeGone.add(key)
      const found = cell.kv.get(key)
      if (expiresAt <= now) expect([key, found]).toEqual([key, undefined])
      else if (!maybeGone.has(key)) expect([key, found]).toEqual([key, key])
    }
    const ttlSeconds = 1 + random.below(500 * 86_400)
    cell.kv.put(`k${step}`, `k${step}`, { ttlSeconds })
    expiry.set(`k${step}`, now + ttlSeconds * 1_000)
    cell.kv.put('last', String(step))
    if (random.chance(0.5)) {
      const backup = await (random.chance(0.5) ? store.backups.snapshot(id) : store.backups.incremental(id))
      expect([versions.at(-1) ?? '', backup.version].toSorted()[1]).toBe(backup.version)
      expect(versions).not.toContain(backup.version)
      versions.push(backup.version)
      expect((await store.backups.list(id, { limit: 1 })).backups[0]?.version).toBe(backup.version)
      cell.kv.put('last', 'after the backup')
      await store.backups.restore(id)
      expect(cell.kv.get('last')).toBe(String(step))
    }
    if (random.chance(0.2)) {
      await store.close()
      if (versions.length > 0 && random.chance(0.3)) {
        place.loseData()
        // What was put since the newest backup is lost with the data.
        expiry.clear()
      }
      store = await place.openOrCreate(settings)
      await store.openCell(id).ensureLocal()
    }
  }
  const { backups } = await store.backups.list(id, { limit: 1_000 })
  expect(backups.map(({ version }) => version)).toEqual(versions.toReversed())
})
