import { beforeEach, describe, expect, test } from 'vitest'
import { FileObjectStore } from '../../../src/backup/object-store/file/file-object-store.ts'
import { bufferBody } from '../../../src/backup/object-store/object-store.ts'
import { fenceKey, fenceTicketKey } from '../../../src/backup/versions/object-keys.ts'
import { CellError } from '../../../src/errors.ts'
import { FenceNode } from '../../support/backup/fence-node.ts'
import { FrozenListing, PassingStore, RecordingStore } from '../../support/backup/object-store-decorators.ts'
import { WeakStore } from '../../support/backup/weak-store.ts'
import { tempDirectory } from '../../support/temp-directory.ts'
import { rejectedBy } from '../../support/thrown.ts'

class FailingRemovals extends PassingStore {
  #left: number

  constructor(inner: FileObjectStore, failures: number) {
    super(inner)
    this.#left = failures
  }

  protected override async before(call: string): Promise<void> {
    if (call === 'delete' && this.#left-- > 0)
      throw new CellError('object_store_unavailable', 'The object store is down (injected).')
  }
}

/** Stores the first object below the prefix, and says that it could not. */
class DoubtedPut extends PassingStore {
  readonly #of: string
  #isLeft = true

  constructor(inner: PassingStore | FileObjectStore, of: string) {
    super(inner)
    this.#of = of
  }

  override async put(...args: Parameters<PassingStore['put']>): Promise<void> {
    await super.put(...args)
    if (!this.#isLeft || !args[0].startsWith(this.#of)) return
    this.#isLeft = false
    throw new CellError('object_store_unavailable', 'The object store answered nothing (injected).')
  }
}

let folder: FileObjectStore
let recording: RecordingStore
beforeEach(() => {
  folder = new FileObjectStore({ root: tempDirectory('cellstore-fence-bounds') })
  recording = new RecordingStore(folder)
})

test('a look at the fence counts for 15 seconds, and no longer', async () => {
  const node = new FenceNode(recording)
  await node.take()
  recording.forget()
  node.clock.advance(15_000)
  await node.guard.confirm()
  expect(recording.fenceCalls).toEqual([])
  node.clock.advance(1)
  await node.guard.confirm()
  expect(recording.fenceCalls).toEqual([{ call: 'head', key: fenceKey(2) }])
  await node.stop()
})

test('a node that slept looks before it writes, although no time has passed for its timers (invariant 14)', async () => {
  const node = new FenceNode(recording)
  await node.take()
  node.clock.advance(5_000)
  await new FenceNode(folder, { takesOver: true }).take()
  node.clock.sleep(3_600_000)
  await expect(node.guard.confirm()).rejects.toMatchObject({ code: 'taken_over' })
  await node.stop()
})

describe('A start that others are faster than', () => {
  /** Before each of the first puts of its fence, another start puts the same one. */
  async function takeAfter(races: number): Promise<FenceNode> {
    let left = races
    const racing = new (class extends PassingStore {
      override async put(...args: Parameters<PassingStore['put']>): Promise<void> {
        if (left-- > 0) await new FenceNode(folder, { takesOver: true }).take()
        await super.put(...args)
      }
    })(folder)
    const node = new FenceNode(racing, { takesOver: true })
    await node.take()
    return node
  }

  test('takes an epoch with its tenth try', async () => {
    const node = await takeAfter(9)
    expect(node.guard.epoch).toBe(10)
    await node.stop()
  })

  test('gives up after that', async () => {
    await expect(takeAfter(10)).rejects.toMatchObject({ code: 'object_exists' })
  })
})

test('the ticket of a start that was killed is removed after thirty looks, and not before', async () => {
  const dead = fenceTicketKey(1, '00000000-0000-4000-8000-000000000000')
  await folder.put(dead, bufferBody(Buffer.from('{}')))
  const node = new FenceNode(new WeakStore(recording))
  await node.settled(node.take())
  expect(node.guard.epoch).toBe(1)
  expect(node.guard.excludesOthers).toBe(false)
  expect(await folder.head(dead)).toBeUndefined()
  const removal = recording.fenceCalls.findIndex(({ call, key }) => call === 'delete' && key === dead)
  const looks = recording.fenceCalls
    .slice(0, removal)
    .filter(({ call, key }) => call === 'list' && key === fenceKey(1))
  expect(looks).toHaveLength(31)
  await node.stop()
})

test('a start whose ticket no listing shows gives up and withdraws it; once one does, the next try takes the epoch (invariant 13)', async () => {
  const frozen = new FrozenListing(folder)
  await frozen.freeze()
  const node = new FenceNode(new WeakStore(frozen))
  const refused = await rejectedBy(node.settled(node.take()))
  expect(refused).toMatchObject({ code: 'object_store_unavailable', message: expect.stringMatching(/list/) })
  expect(node.guard.epoch).toBeUndefined()
  frozen.thaw()
  const left: string[] = []
  for await (const { key } of folder.list('')) left.push(key)
  expect(left).toEqual([])
  await node.settled(node.take())
  expect(node.guard.epoch).toBe(1)
  await node.stop()
})

describe('A start whose ticket stayed, as its put was stored and not confirmed, finds it there at its next try', () => {
  test('and takes the epoch (invariant 13)', async () => {
    const node = new FenceNode(new WeakStore(new DoubtedPut(folder, `${fenceKey(1)}-`)))
    await expect(node.settled(node.take())).rejects.toMatchObject({ code: 'object_store_unavailable' })
    await node.settled(node.take())
    expect(node.guard.epoch).toBe(1)
    await node.stop()
  })

  test('also if no listing shows it yet', async () => {
    const ticket = `${fenceKey(1)}-`
    const frozen = new FrozenListing(folder)
    await frozen.freeze()
    let puts = 0
    // The second try has looked by then, did not see its ticket, and puts it again.
    const thawing = new (class extends PassingStore {
      protected override async before(call: string, key: string): Promise<void> {
        if (call === 'put' && key.startsWith(ticket) && ++puts === 2) frozen.thaw()
      }
    })(frozen)
    const node = new FenceNode(new WeakStore(new DoubtedPut(thawing, ticket)))
    await expect(node.settled(node.take())).rejects.toMatchObject({ code: 'object_store_unavailable' })
    await node.settled(node.take())
    expect([node.guard.epoch, puts]).toEqual([1, 2])
    await node.stop()
  })

  test('and withdraws it for a start that has the first name', async () => {
    const node = new FenceNode(new WeakStore(new DoubtedPut(recording, `${fenceKey(1)}-`)))
    await expect(node.settled(node.take())).rejects.toMatchObject({ code: 'object_store_unavailable' })
    const mine = recording.fenceCalls.findLast(({ call }) => call === 'put')?.key
    const first = fenceTicketKey(1, '00000000-0000-4000-8000-000000000000')
    await folder.put(first, bufferBody(Buffer.from('{}')))
    recording.forget()
    await node.settled(node.take())
    const removed = recording.fenceCalls.filter(({ call }) => call === 'delete').map(({ key }) => key)
    expect(removed.slice(0, 2)).toEqual([mine, first])
    await node.stop()
  })
})

describe('A version of a node that was taken over meanwhile', () => {
  /** @returns whether it is still there */
  async function putLate(failures: number): Promise<boolean> {
    const node = new FenceNode(new FailingRemovals(folder, failures))
    await node.take()
    await new FenceNode(folder, { takesOver: true }).take()
    const late = 'snapshots/0b8f3c52-6f4e-4d0a-9a52-0d7f5a3c9e11/backup-20261121T020213.123Z'
    const put = node.settled(node.store.put(late, bufferBody(Buffer.from('late'))))
    await expect(put).rejects.toMatchObject({ code: 'taken_over' })
    await node.stop()
    return (await folder.head(late)) !== undefined
  }

  test('is removed although the first tries fail: a total loss would bring it back (invariant 14)', async () => {
    expect(await putLate(5)).toBe(false)
  })

  test('stays after 15 seconds of tries: the next node may have gone on from it', async () => {
    expect(await putLate(1_000)).toBe(true)
  })
})
