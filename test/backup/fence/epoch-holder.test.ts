import fs from 'node:fs'
import path from 'node:path'
import { beforeEach, describe, expect, test } from 'vitest'
import { takenOver } from '../../../src/backup/fence/epoch-guard.ts'
import { FileObjectStore } from '../../../src/backup/object-store/file/file-object-store.ts'
import { ELSEWHERE, FenceNode, type FenceNodeOptions, LEASE_MS } from '../../support/backup/fence-node.ts'
import { LaggingStore, RecordingStore } from '../../support/backup/object-store-decorators.ts'
import { FakeClock, TEST_EPOCH_MS } from '../../support/fake-clock.ts'
import { tempDirectory } from '../../support/temp-directory.ts'
import { turnsUntil } from '../../support/turns.ts'

const HOUR_MS = 3_600_000

let root: string
let store: RecordingStore
beforeEach(() => {
  root = tempDirectory('cellstore-fence-objects')
  store = new RecordingStore(new FileObjectStore({ root }))
})

/** As if it was killed: it writes no more records, and is unknown to this process. */
function end(node: FenceNode): void {
  node.guard.lose(takenOver('killed (injected)'))
}

const records = () =>
  fs.existsSync(path.join(root, 'holder')) ? fs.readdirSync(path.join(root, 'holder')) : []

/** Lets the node write its next record. */
async function nextRecord(node: FenceNode): Promise<void> {
  const before = records().join()
  node.clock.advance(70_000)
  await turnsUntil(() => records().join() !== before && records().length === 1, 'the next record is written')
  await turnsUntil(() => node.clock.nextTimerMs !== undefined, 'the one after it is planned')
}

describe('A start on a prefix whose node was not stopped', () => {
  test('waits for the lease if that node runs elsewhere, by its own clock alone', async () => {
    for (const hours of [-1, 0, 1]) {
      const clock = new FakeClock(TEST_EPOCH_MS + hours * HOUR_MS)
      const other = new FenceNode(store, { place: ELSEWHERE, takesOver: true, clock })
      await other.take()
      const node = new FenceNode(store)
      // The other one's process has ended; only its machine knows.
      end(other)
      expect(await node.take()).toMatchObject({
        leftMs: LEASE_MS,
        holder: expect.stringContaining(`process ${process.pid} on elsewhere`),
      })
      node.clock.advance(LEASE_MS - 1)
      expect(await node.take()).toMatchObject({ leftMs: 1 })
      node.clock.advance(1)
      expect(await node.take()).toBeUndefined()
      await node.stop()
    }
  })

  test('is refused as soon as that node gives a sign of itself', async () => {
    const other = new FenceNode(store, { place: ELSEWHERE })
    await other.take()
    const node = new FenceNode(store, { place: { boot_id: 'a third boot' } })
    expect(await node.take()).toBeDefined()
    await nextRecord(other)
    node.clock.advance(30_000)
    await expect(node.take()).rejects.toMatchObject({
      code: 'object_store_in_use',
      message: expect.stringMatching(/is in use by process \d+ on elsewhere.*--take-over/),
    })
    await other.stop()
  })

  test.each<[string, FenceNodeOptions['place'], (other: FenceNode) => Promise<void> | void]>([
    ['it was stopped properly', ELSEWHERE, (other) => other.stop()],
    ['its process of this machine is dead', { pid: 2 ** 22 + 1 }, end],
    ['its pid is another process by now', { pid: process.ppid, start_time: 1 }, end],
    ['it was of this process, and gave up', {}, end],
  ])('goes on at once if %s', async (_why, place, leave) => {
    const other = new FenceNode(store, { place })
    await other.take()
    await leave(other)
    const node = new FenceNode(store)
    expect(await node.take()).toBeUndefined()
    await node.stop()
  })

  test('goes on at once if it was of the same directory, whose lock this one has, in whichever container', async () => {
    const directory = tempDirectory('cellstore-fence')
    const other = new FenceNode(store, { directory, place: { pid_namespace: 'another', host: 'container' } })
    await other.take()
    end(other)
    const node = new FenceNode(store, { directory })
    expect(await node.take(true)).toBeUndefined()
    await node.stop()
  })

  test('is refused at once if a process of this machine has it, and waits if that has not been heard of for a lease', async () => {
    const clock = new FakeClock()
    const alive = new FenceNode(store, {
      clock,
      place: { pid: process.ppid, start_time: startTimeOf(process.ppid) },
    })
    await alive.take()
    // It runs in another process, as far as this one knows.
    end(alive)
    await expect(new FenceNode(store, { clock }).take()).rejects.toMatchObject({
      code: 'object_store_in_use',
    })
    clock.advance(LEASE_MS + 1)
    expect(await new FenceNode(store, { clock }).take()).toMatchObject({ leftMs: LEASE_MS })
  })

  test('waits if the record is damaged', async () => {
    const other = new FenceNode(store)
    await other.take()
    end(other)
    const fence = path.join(root, 'fence', '0000000001')
    fs.writeFileSync(fence, fs.readFileSync(fence, 'utf8').replace(/"pid":\d+/, '"pid":1'))
    expect(await new FenceNode(store).take()).toMatchObject({ leftMs: LEASE_MS })
  })
})

describe('A directory', () => {
  test('is outdated if another one has used the prefix since, or if it is an older copy of itself', async () => {
    const directory = tempDirectory('cellstore-fence')
    const first = new FenceNode(store, { directory })
    await first.take()
    const copy = path.join(tempDirectory('cellstore-fence'), 'copy')
    fs.cpSync(directory, copy, { recursive: true })
    await nextRecord(first)
    await first.stop()

    await expect(new FenceNode(store, { directory: copy }).take(true)).rejects.toMatchObject({
      code: 'store_outdated',
      message: expect.stringMatching(/--adopt.*--take-over/),
    })
    const again = new FenceNode(store, { directory })
    expect(await again.take(true)).toBeUndefined()
    await again.stop()
    const other = new FenceNode(store)
    await other.take()
    await other.stop()
    await expect(new FenceNode(store, { directory }).take(true)).rejects.toMatchObject({
      code: 'store_outdated',
    })
    const insisting = new FenceNode(store, { directory, takesOver: true })
    expect(await insisting.take(true)).toBeUndefined()
    await insisting.stop()
  })

  test('is not outdated after a start whose fence was stored without an answer, or was not stored', async () => {
    const directory = tempDirectory('cellstore-fence')
    for (const isStored of [true, false]) {
      const put = store.put.bind(store)
      store.put = async (key, body) => {
        if (isStored) await put(key, body)
        throw new Error('no answer (injected)')
      }
      await expect(new FenceNode(store, { directory }).take(true)).rejects.toThrow('no answer')
      store.put = put
      const node = new FenceNode(store, { directory })
      expect(await node.take(true)).toBeUndefined()
      await node.stop()
    }
  })

  test('keeps a fence whose start was given up while it was stored', async () => {
    const directory = tempDirectory('cellstore-fence')
    const abort = new AbortController()
    const put = store.put.bind(store)
    const ended = Promise.withResolvers<void>()
    store.put = async (key, body, options) => {
      expect(options?.signal).toBeUndefined()
      abort.abort(new Error('given up'))
      await put(key, body, options)
      ended.resolve()
    }
    const node = new FenceNode(store, { directory })
    await expect(node.holder.tryTake(true, { signal: abort.signal })).rejects.toThrow('given up')
    await ended.promise
    store.put = put
    expect(await node.take(true)).toBeUndefined()
    expect(node.guard.epoch).toBe(2)
    await node.stop()
  })

  test.each([1, 3])(
    'is not outdated after %i starts that were killed while their fence was stored, which comes after the next look',
    async (killed) => {
      const directory = tempDirectory('cellstore-fence')
      const first = new FenceNode(store, { directory })
      await first.take()
      await first.stop()
      const put = store.put.bind(store)
      let comesLate: (() => Promise<void>) | undefined
      for (let i = 0; i < killed; i++) {
        store.put = async (key, body) => {
          comesLate ??= () => put(key, body)
          throw new Error('killed (injected)')
        }
        await expect(new FenceNode(store, { directory }).take(true)).rejects.toThrow('killed')
      }
      store.put = async (key, body, options) => {
        await comesLate?.()
        store.put = put
        await put(key, body, options)
      }
      const node = new FenceNode(store, { directory })
      expect(await node.take(true)).toBeUndefined()
      expect(node.guard.epoch).toBe(3)
      await node.stop()
    },
  )

  test('is not outdated after more starts than it remembers, whose fences could not be stored', async () => {
    const directory = tempDirectory('cellstore-fence')
    const first = new FenceNode(store, { directory })
    await first.take()
    await first.stop()
    const put = store.put.bind(store)
    store.put = async () => {
      throw new Error('refused (injected)')
    }
    for (let i = 0; i < 20; i++)
      await expect(new FenceNode(store, { directory }).take(true)).rejects.toThrow('refused')
    store.put = put
    const node = new FenceNode(store, { directory })
    expect(await node.take(true)).toBeUndefined()
    expect(node.guard.epoch).toBe(2)
    await node.stop()
  })

  test('is not outdated if an earlier version wrote what it remembers', async () => {
    const directory = tempDirectory('cellstore-fence')
    const file = path.join(directory, 'object-store.json')
    const first = new FenceNode(store, { directory })
    await first.take()
    await first.stop()
    const { url, starts } = JSON.parse(fs.readFileSync(file, 'utf8'))
    const [{ stored: _, ...position }] = starts[url]
    fs.writeFileSync(file, JSON.stringify({ url, positions: { [url]: position } }))
    const node = new FenceNode(store, { directory })
    expect(await node.take(true)).toBeUndefined()
    await node.stop()
  })

  test('still knows a prefix that has got another URL', async () => {
    const directory = tempDirectory('cellstore-fence')
    const first = new FenceNode(store, { directory })
    await first.take()
    await first.stop()
    const moved = `${root}-moved`
    fs.renameSync(root, moved)
    const node = new FenceNode(new FileObjectStore({ root: moved }), { directory })
    expect(await node.take(true)).toBeUndefined()
    await node.stop()
    fs.rmSync(moved, { recursive: true })
  })
})

describe('A take-over', () => {
  test.each([1, 2, 3])(
    'is seen by the node before it, although its fence could not be stored at %i first tries (invariant 14)',
    async (failures) => {
      const before = new FenceNode(store)
      await before.take()
      const directory = tempDirectory('cellstore-fence')
      const put = store.put.bind(store)
      store.put = async () => {
        throw new Error('refused (injected)')
      }
      const node = new FenceNode(store, { directory, takesOver: true })
      for (let i = 0; i < failures; i++) await expect(node.take()).rejects.toThrow('refused')
      store.put = put
      expect(await node.take()).toBeUndefined()
      await expect(before.guard.check()).rejects.toMatchObject({ code: 'taken_over' })
      await node.guard.check()
      await node.stop()
    },
  )

  test('is seen by the start of the node before it, although the listing lacks it (invariant 14)', async () => {
    const lagging = new LaggingStore(new FileObjectStore({ root }))
    const directory = tempDirectory('cellstore-fence')
    const before = new FenceNode(lagging, { directory })
    await before.take()
    await before.stop()
    const nodes = [1, 2].map(() => new FenceNode(store, { takesOver: true }))
    for (const node of nodes) await node.take()
    const fences = ['fence/0000000001', 'fence/0000000002', 'fence/0000000003']
    for (const shown of [0, 1, 2, 3]) {
      lagging.hide(fences.slice(shown))
      await expect(new FenceNode(lagging, { directory }).take(true)).rejects.toMatchObject({
        code: expect.stringMatching(/^(store_outdated|object_store_in_use)$/),
      })
    }
    await nodes[1]?.guard.check()
    for (const node of nodes) await node.stop()
  })
})

describe('After somebody emptied the object store, a node of an earlier epoch, which has slept since, finds the next fence and stops (invariant 14)', () => {
  let directory: string
  let asleep: FenceNode
  let node: FenceNode
  beforeEach(async () => {
    asleep = new FenceNode(store)
    await asleep.take()
    directory = tempDirectory('cellstore-fence')
    for (const last of [false, true]) {
      node = new FenceNode(store, { directory, takesOver: true })
      await node.take()
      if (!last) await node.stop()
    }
    expect(node.guard.epoch).toBe(3)
  })

  async function expectAllFences(newest: number): Promise<void> {
    const names = Array.from({ length: newest }, (_, i) => String(i + 1).padStart(10, '0'))
    expect(fs.readdirSync(path.join(root, 'fence'))).toEqual(names)
    await expect(asleep.guard.check()).rejects.toMatchObject({ code: 'taken_over' })
    await node.guard.check()
    await node.stop()
  }

  test('when the node of the newest one starts again', async () => {
    await node.stop()
    fs.rmSync(root, { recursive: true })
    node = new FenceNode(store, { directory })
    expect(await node.take(true)).toBeUndefined()
    await expectAllFences(4)
  })

  test('when the node of the newest one goes on', async () => {
    await nextRecord(node)
    fs.rmSync(root, { recursive: true })
    await nextRecord(node)
    await expectAllFences(3)
  })
})

describe('The record of a node', () => {
  test('is written at most once a minute, and costs two looks, a PUT and a DELETE', async () => {
    const node = new FenceNode(store)
    await node.take()
    await nextRecord(node)
    store.forget()
    node.clock.advance(59_999)
    expect(store.fenceCalls).toEqual([])
    node.clock.advance(1)
    await turnsUntil(() => store.fenceCalls.length === 4, 'the record is written')
    expect(store.fenceCalls.map(({ call, key }) => `${call} ${key}`)).toEqual([
      'head fence/0000000002',
      'head holder/0000000001-0000000001',
      'put holder/0000000001-0000000002',
      'delete holder/0000000001-0000000001',
    ])
    await node.stop()
  })

  test('is written again soon after it failed, and no more after the epoch is lost', async () => {
    const node = new FenceNode(store)
    await node.take()
    const { put } = store
    store.put = async () => {
      throw new Error('down (injected)')
    }
    node.clock.advance(60_000)
    await turnsUntil(() => node.log.warnings.length === 1, 'the failure is logged')
    store.put = put.bind(store)
    node.clock.advance(5_000)
    await turnsUntil(() => records().length === 1, 'the record is written')
    const other = new FenceNode(store, { takesOver: true })
    await other.take()
    node.clock.advance(60_000)
    await turnsUntil(() => node.guard.failure !== undefined, 'the node knows that it was taken over')
    expect(node.guard.failure?.code).toBe('taken_over')
    expect(node.clock.nextTimerMs).toBeUndefined()
    await other.stop()
  })
})

function startTimeOf(pid: number): number {
  const stat = fs.readFileSync(`/proc/${pid}/stat`, 'utf8')
  return Number(stat.slice(stat.lastIndexOf(')') + 2).split(' ')[19])
}
