import { createHash } from 'node:crypto'
import fs from 'node:fs'
import { describe, expect, test } from 'vitest'
import type { RestoreThread } from '../../../src/backup/restore/threads/restore-thread.ts'
import { RestoreThreads } from '../../../src/backup/restore/threads/restore-threads.ts'
import { FakeClock } from '../../support/fake-clock.ts'

const MINUTE = 60_000

const FILE = import.meta.filename
const BYTES = fs.readFileSync(FILE)
const SHA256 = createHash('sha256').update(BYTES).digest('hex')

/** Whether it still does what it is asked to. */
async function works(worker: RestoreThread): Promise<boolean> {
  const digest = worker
    .run({ kind: 'hash', file: FILE, bytes: BYTES.length })
    .then(() => worker.run({ kind: 'digest' }))
    .catch(() => undefined)
  return (await digest) === SHA256
}

describe('The thread of a restore', () => {
  test('is the next one’s too, until nobody has used it for a while', async () => {
    const clock = new FakeClock()
    const threads = new RestoreThreads(clock)
    const worker = threads.take()
    expect(await works(worker)).toBe(true)
    await threads.release(worker)
    expect(threads.take()).toBe(worker)
    clock.advance(MINUTE)
    expect(await works(worker)).toBe(true)
    await threads.release(worker)
    clock.advance(MINUTE)
    const other = threads.take()
    expect(other).not.toBe(worker)
    expect(await works(worker)).toBe(false)
    await other.close()
  })

  test('is nobody else’s while it is used, and of several no more than one is kept', async () => {
    const threads = new RestoreThreads(new FakeClock())
    const [one, other] = [threads.take(), threads.take()]
    expect(other).not.toBe(one)
    await threads.release(one)
    await threads.release(other)
    expect(await works(one)).toBe(true)
    expect(await works(other)).toBe(false)
    await threads.close()
  })

  test('is not used again after it has ended', async () => {
    const threads = new RestoreThreads(new FakeClock())
    const worker = threads.take()
    await threads.release(worker)
    await worker.close()
    const next = threads.take()
    expect(next).not.toBe(worker)
    expect(await works(next)).toBe(true)
    await next.close()
  })

  test('ends with the store, also one that is given back later', async () => {
    const threads = new RestoreThreads(new FakeClock())
    const [kept, late] = [threads.take(), threads.take()]
    await threads.release(kept)
    await threads.close()
    expect(await works(kept)).toBe(false)
    await threads.release(late)
    expect(await works(late)).toBe(false)
  })
})
