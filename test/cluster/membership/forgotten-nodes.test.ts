import { randomUUID } from 'node:crypto'
import { setImmediate as turnOfTheLoop } from 'node:timers/promises'
import { expect, test } from 'vitest'
import { encodeRecord } from '../../../src/backup/fence/holder-record.ts'
import { FileObjectStore } from '../../../src/backup/object-store/file/file-object-store.ts'
import { bufferBody } from '../../../src/backup/object-store/object-store.ts'
import { fenceForgotten } from '../../../src/cluster/membership/forgotten-nodes.ts'
import { leaseTimes } from '../../../src/cluster/membership/lease.ts'
import { SteppedClock } from '../../../src/testing/stepped-clock.ts'
import { MemoryNodeTable } from '../../support/cluster/memory-node-table.ts'
import { KeptLog } from '../../support/kept-log.ts'
import { tempDirectory } from '../../support/temp-directory.ts'

const TIMES = leaseTimes(6_000)

/** Nodes on other machines, each with its first fence. `self` looks. */
async function setUp(...names: string[]) {
  const [table, clock, log] = [new MemoryNodeTable(), new SteppedClock(), new KeptLog()]
  const bucket = new FileObjectStore({ root: tempDirectory('cellstore-forgotten') })
  const put = (name: string, epoch: number, { closed = false, lease_ms = 60_000 } = {}) => {
    const record = {
      ...{ epoch, sequence: 0, instance: `${name}-${epoch}`, host: name, pid: 1, directory: name },
      ...{ boot_id: null, pid_namespace: null, start_time: null, lease_ms, closed },
      written_at: new Date(clock.now()).toISOString(),
    }
    return bucket.put(`nodes/${name}/fence/${keyOf(epoch)}`, bufferBody(encodeRecord(record)))
  }
  for (const name of names) await put(name, 1)
  const join = (id: string) =>
    table.join({ id, address: '', prefix: `nodes/${id}/`, epoch: 1, stampBound: 0, startedAt: 0 })
  const look = () => {
    const place = { storeId: randomUUID(), prefix: 'nodes/self/', dataDir: '/none' }
    return fenceForgotten({ table, bucket, ...place, times: TIMES, clock, log })
  }
  const isFenced = async (name: string) =>
    (await bucket.head(`nodes/${name}/fence/${keyOf(2)}`)) !== undefined
  return { clock, put, join, look, isFenced }
}

const keyOf = (epoch: number) => String(epoch).padStart(10, '0')

/** Real files are read in between. @returns after how long it has resolved */
async function msOf(clock: SteppedClock, looking: Promise<void>): Promise<number> {
  let isDone = false
  void looking.finally(() => (isDone = true)).catch(() => {})
  for (const from = clock.monotonic(); ; clock.advance(clock.nextTimerMs === undefined ? 0 : 100)) {
    for (let turn = 0; turn < 50 && !isDone; turn++) await turnOfTheLoop()
    if (!isDone) continue
    await looking
    return clock.monotonic() - from
  }
}

test('a node without a row is fenced, and waited for until its lease has ended (F5, C7)', async () => {
  const { clock, join, look, isFenced } = await setUp('self', 'known', 'forgotten')
  await join('known')
  expect(await msOf(clock, look())).toBeGreaterThanOrEqual(TIMES.ttlMs + TIMES.fenceMs)
  expect(await isFenced('forgotten')).toBe(true)
  expect(await isFenced('known')).toBe(false)
  expect(await isFenced('self')).toBe(false)
})

test('a node that joins meanwhile is not fenced', async () => {
  const { clock, join, look, isFenced } = await setUp('joining')
  const looking = look()
  for (let turn = 0; turn < 1_000 && clock.nextTimerMs === undefined; turn++) await turnOfTheLoop()
  clock.setTimer(() => void join('joining'), TIMES.ttlMs / 2)
  await msOf(clock, looking)
  expect(await isFenced('joining')).toBe(false)
})

test('what another node has fenced just now is waited for, and one that was stopped is not', async () => {
  const { clock, put, look } = await setUp()
  await put('stopped', 1, { closed: true })
  expect(await msOf(clock, look())).toBe(0)
  await put('fenced', 1)
  await put('fenced', 2, { closed: true, lease_ms: 0 })
  expect(await msOf(clock, look())).toBeGreaterThanOrEqual(TIMES.fenceMs)
})
