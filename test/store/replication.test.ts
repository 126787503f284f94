import { describe, expect, test } from 'vitest'
import type { Flushed } from '../../src/backup/shipping/flushes.ts'
import { CellError } from '../../src/errors.ts'
import { Replication } from '../../src/store/open/replication.ts'
import { FakeClock } from '../support/fake-clock.ts'

const WAIT_MS = 10_000
/** Between two tries. */
const RETRY_MS = 250
const unavailable = () => new CellError('object_store_unavailable', 'It does not answer.')

/** A replication whose flushes and first versions end when the test says so. */
function replication(
  withoutHistory: string[] = [],
  { unreadable = [] as string[], isUnproven = false, exists = (): boolean => true } = {},
) {
  const clock = new FakeClock()
  const flushes: PromiseWithResolvers<Flushed>[] = []
  const versions: PromiseWithResolvers<void>[] = []
  const next = <T>(list: PromiseWithResolvers<T>[]) => {
    const one = Promise.withResolvers<T>()
    list.push(one)
    return one.promise
  }
  const subject = new Replication({
    flush: () => next(flushes),
    ensureLocal: async () => {},
    backUp: () => next(versions),
    storeCatalog: async () => {},
    isInStoredCatalog: () => true,
    clock,
    isRemote: () => true,
    isUnproven: () => isUnproven,
    exists,
    waitMs: WAIT_MS,
  })
  const shipped = () => flushes.at(-1)?.resolve({ withoutHistory, unreadable })
  return { subject, clock, flushes, versions, shipped }
}

describe('a change that waits for the object store', () => {
  test('is confirmed once all that was committed before is shipped', async () => {
    const { subject, flushes, shipped } = replication()
    const confirmed = subject.confirm('a')
    expect(flushes.length).toBe(1)
    shipped()
    await confirmed
  })

  test('is confirmed by the first version of a cell that has no history yet', async () => {
    const { subject, versions, shipped } = replication(['a'])
    const confirmed = subject.confirm('a')
    shipped()
    await expect.poll(() => versions.length).toBe(1)
    versions[0]?.resolve()
    await confirmed
  })

  test('is not confirmed by a first version that began before it: it waits for one more', async () => {
    const { subject, versions, shipped } = replication(['a'])
    const first = subject.confirm('a')
    shipped()
    await expect.poll(() => versions.length).toBe(1)
    const second = subject.confirm('a')
    shipped()
    versions[0]?.resolve()
    await first
    await expect.poll(() => versions.length).toBe(2)
    versions[1]?.resolve()
    await second
  })

  test('is tried again while the object store fails, and refused once the wait is over, with the cause', async () => {
    const { subject, clock, flushes } = replication()
    const confirmed = subject.confirm('a').catch((error: unknown) => error)
    flushes[0]?.reject(unavailable())
    await expect.poll(() => clock.nextTimerMs).toBe(RETRY_MS)
    clock.advance(RETRY_MS)
    await expect.poll(() => flushes.length).toBe(2)
    flushes[1]?.reject(unavailable())
    await expect.poll(() => clock.nextTimerMs).toBe(RETRY_MS)
    clock.advance(WAIT_MS)
    const error = (await confirmed) as CellError
    expect(error).toMatchObject({ code: 'not_replicated', details: { limit: WAIT_MS } })
    expect(error.message).toContain('Do not repeat it')
    expect(error.cause).toMatchObject({ code: 'object_store_unavailable' })
  })

  // Invariant 1: nobody has the cell any more, so that nothing shows whether its last commits were shipped.
  test.each(['before it is shipped', 'before its first version'])(
    'is refused at once if the cell is deleted %s',
    async (when) => {
      const isFirst = when === 'before its first version'
      let isDeleted = false
      const exists = () => !isDeleted
      const { subject, versions, shipped } = replication(isFirst ? ['a'] : [], { exists })
      const confirmed = subject.confirm('a').catch((error: unknown) => error)
      if (isFirst) {
        shipped()
        await expect.poll(() => versions.length).toBe(1)
      }
      isDeleted = true
      if (isFirst) versions[0]?.reject(new CellError('cell_not_found', 'There is no such cell.'))
      else shipped()
      const error = (await confirmed) as CellError
      expect(error).toMatchObject({ code: 'not_replicated' })
      expect(error.message).toContain('deleted')
    },
  )

  test('is refused at once when another node has taken over', async () => {
    const { subject, flushes } = replication()
    const confirmed = subject.confirm('a')
    flushes[0]?.reject(new CellError('taken_over', 'Another node has the prefix.'))
    await expect(confirmed).rejects.toMatchObject({ code: 'taken_over' })
  })
})
