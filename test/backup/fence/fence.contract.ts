import { randomUUID } from 'node:crypto'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { bufferBody, type ObjectStore } from '../../../src/backup/object-store/object-store.ts'
import { logKey, versionOf } from '../../../src/backup/versions/object-keys.ts'
import { FenceNode, type FenceNodeOptions } from '../../support/backup/fence-node.ts'
import { RecordingStore } from '../../support/backup/object-store-decorators.ts'
import { TEST_EPOCH_MS } from '../../support/fake-clock.ts'
import { Random } from '../../support/random.ts'
import { collectAll } from '../../support/s3/object-store-checks.ts'
import type { StoreUnderTest } from '../object-store/object-store-under-test.ts'

/** What the fence needs of an object store: suites for all kinds of them call this. */
export function fenceContract(name: string, subject: () => Promise<StoreUnderTest>): void {
  describe(`The fence on ${name}`, () => {
    let place: StoreUnderTest
    let stores: ObjectStore[]
    beforeEach(async () => {
      place = await subject()
      stores = []
    })
    afterEach(async () => {
      for (const store of stores) await store.close()
      await place.dispose()
    })

    /** A node with a client of its own. */
    function node(options?: FenceNodeOptions): FenceNode {
      return new FenceNode(open(), options)
    }

    function open(): ObjectStore {
      const store = place.open()
      stores.push(store)
      return store
    }

    const keys = async () => (await collectAll(open().list(''))).map(({ key }) => key)
    const version = (n: number) => versionOf(randomUUID(), TEST_EPOCH_MS + n)
    const body = bufferBody(Buffer.from('a backup'))

    test('each start takes the next epoch, and no fence is ever removed', async () => {
      for (const epoch of [1, 2, 3]) {
        const next = node()
        expect(await next.take()).toBeUndefined()
        expect(next.guard.epoch).toBe(epoch)
        await next.store.put(version(epoch), body)
        await next.stop()
      }
      const fences = (await keys()).filter((key) => /^fence\/\d+$/.test(key))
      expect(fences).toEqual(['fence/0000000001', 'fence/0000000002', 'fence/0000000003'])
      expect((await keys()).filter((key) => key.startsWith('holder/'))).toHaveLength(1)
    })

    test('of nodes that start at the same moment exactly one takes an epoch, and the others say who has it', async () => {
      const random = new Random(7)
      const nodes = [1, 2, 3].map(() => node({ random: () => random.below(1_000) / 1_000 }))
      const outcomes = await Promise.allSettled(nodes.map((each) => each.settled(each.take())))
      expect(outcomes.filter(({ status }) => status === 'fulfilled')).toHaveLength(1)
      for (const outcome of outcomes) {
        if (outcome.status === 'rejected')
          expect(outcome.reason).toMatchObject({
            code: 'object_store_in_use',
            message: expect.stringContaining(`process ${process.pid} on host`),
          })
      }
      for (const each of nodes) await each.stop()
    })

    test('a node that was taken over learns it with its next backup, which does not count, and writes nothing more', async () => {
      const first = node()
      await first.take()
      await first.store.put(version(1), body)
      const second = node({ takesOver: true })
      await second.take()
      const late = version(2)
      await expect(first.store.put(late, body)).rejects.toMatchObject({ code: 'taken_over' })
      const before = await keys()
      expect(before).not.toContain(late)
      await expect(first.store.put(version(3), body)).rejects.toMatchObject({ code: 'taken_over' })
      await expect(first.store.delete(version(1))).rejects.toMatchObject({ code: 'taken_over' })
      await first.stop()
      expect(await keys()).toEqual(before)
      await second.store.put(version(4), body)
      await second.stop()
    })

    test('a backup that is on its way while another node takes over does not count', async () => {
      const first = node()
      await first.take()
      const late = version(1)
      const slow = {
        size: body.size,
        read: async (offset: number, length: number) => {
          if (second.guard.epoch === undefined) await second.take()
          return await body.read(offset, length)
        },
      }
      const second = node({ takesOver: true })
      await expect(first.store.put(late, slow)).rejects.toMatchObject({ code: 'taken_over' })
      expect(await keys()).not.toContain(late)
      await second.stop()
    })

    test.each([
      [
        'a node that slept in its PUT, of a version: the next node may have gone on from it',
        () => version(1),
        16_000,
      ],
      [
        'a late PUT, of a log object: the first one of the next node may name it',
        () => logKey({ epoch: 1, number: 1 }),
        0,
      ],
    ])('stays stored: what comes of %s (invariant 14)', async (_, keyOf, sleptMs) => {
      const first = node()
      await first.take()
      const late = keyOf()
      const slow = {
        size: body.size,
        read: async (offset: number, length: number) => {
          if (second.guard.epoch === undefined) await second.take()
          first.clock.advance(sleptMs)
          return await body.read(offset, length)
        },
      }
      const second = node({ takesOver: true })
      await expect(first.store.put(late, slow)).rejects.toMatchObject({ code: 'taken_over' })
      expect(await keys()).toContain(late)
      await second.stop()
    })

    test('a node that slept looks before it writes', async () => {
      const recording = new RecordingStore(open())
      const first = new FenceNode(recording)
      await first.take()
      const second = node({ takesOver: true })
      await second.take()
      first.clock.advance(16_000)
      recording.forget()
      await expect(first.store.put(version(1), body)).rejects.toMatchObject({ code: 'taken_over' })
      expect(recording.count('put')).toBe(0)
      await second.stop()
    })
  })
}
