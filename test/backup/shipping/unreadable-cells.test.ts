import fs from 'node:fs'
import { describe, expect, test } from 'vitest'
import { ShippingPlace } from '../../support/backup/shipping-node.ts'
import { rowsIn, storedLogs } from '../../support/backup/stored-logs.ts'

const place = ShippingPlace.perTest()
const keys = async () => (await storedLogs(place.objects)).map(({ key }) => key)
const upTo = (n: number) => Array.from({ length: n }, (_, i) => i + 1)

describe('A cell whose files cannot be read', () => {
  test.each([
    ['', 100],
    [', and that has more than one object has room for,', 70_000_000],
  ])('%s holds up only itself, and nothing is complete until it can be', async (_, bytes) => {
    const node = place.node()
    const [bad, good] = [node.newCell(), node.newCell()]
    await node.start()
    await node.pass(0)
    const before = await keys()
    const upTo = node.shipper.state.backedUpTo
    bad.commit(bytes)
    const mend = bad.makeUnreadable()
    for (let n = 1; n <= 3; n++) {
      good.commit()
      expect(await node.flush()).toEqual({ withoutHistory: [], unreadable: [bad.cellId] })
      const logs = await storedLogs(place.objects)
      expect(rowsIn(logs, good)).toEqual(Array.from({ length: n }, (_, i) => i + 1))
      expect(logs.slice(before.length).map(({ manifest }) => manifest.complete)).not.toContain(true)
      await node.pass(10_000)
    }
    // With nothing else to ship, too.
    expect(await node.flush()).toEqual({ withoutHistory: [], unreadable: [bad.cellId] })
    expect(node.shipper.state.backedUpTo).toBe(upTo)
    expect(node.fence.log.errors).toMatchObject([{ cellId: bad.cellId }])
    mend()
    expect(await node.flush()).toEqual({ withoutHistory: [], unreadable: [] })
    const logs = await storedLogs(place.objects)
    expect(rowsIn(logs, bad)).toEqual([1])
    expect(logs.at(-1)?.manifest.complete).toBe(true)
    expect(node.shipper.state.backedUpTo).toBe(node.fence.clock.now())
    await node.stop()
  })

  /** Returns the file to what it was. */
  type Mend = () => void
  const damages: [string, (file: string) => Mend][] = [
    ['of which a part is missing', (file) => replaced(file, (bytes) => bytes.subarray(0, 5_000))],
    ['whose header has other salts', (file) => replaced(file, (bytes) => flipped(bytes, 16))],
    ['whose header is none', (file) => replaced(file, (bytes) => flipped(bytes, 0))],
    [
      'whose last frame is of another log',
      (file) => replaced(file, (bytes) => flipped(bytes, bytes.length - 4_112)),
    ],
  ]

  test.each(damages)('because it has a segment %s, holds up only itself', async (_, damage) => {
    const node = place.node()
    const [bad, good] = [node.newCell(), node.newCell()]
    await node.start()
    await node.pass(0)
    bad.commit(9_000)
    bad.checkpoint()
    bad.commit()
    const mend = damage(bad.unshipped()?.pieces[0]?.path as string)
    for (let n = 1; n <= 3; n++) {
      good.commit()
      expect(await node.flush()).toEqual({ withoutHistory: [], unreadable: [bad.cellId] })
      expect(rowsIn(await storedLogs(place.objects), good)).toEqual(upTo(n))
      await node.pass(10_000)
    }
    expect(node.fence.log.errors).toMatchObject([{ cellId: bad.cellId }])
    mend()
    expect(await node.flush()).toEqual({ withoutHistory: [], unreadable: [] })
    expect(rowsIn(await storedLogs(place.objects), bad)).toEqual([1, 2])
    await node.stop()
  })

  test.each(damages)('at one look, and has a segment %s, is whole at the next one', async (_, damage) => {
    const node = place.node()
    const [late, good] = [node.newCell(), node.newCell()]
    await node.start()
    await node.pass(0)
    late.commit(9_000)
    late.checkpoint()
    good.commit()
    const mend = damage(late.unshipped()?.pieces[0]?.path as string)
    const flush = node.shipper.flush()
    await node.pass(100)
    expect(rowsIn(await storedLogs(place.objects), good)).toEqual([1])
    mend()
    expect(await node.fence.settled(flush)).toEqual({ withoutHistory: [], unreadable: [] })
    expect(rowsIn(await storedLogs(place.objects), late)).toEqual([1])
    expect(node.fence.log.errors).toEqual([])
    await node.stop()
  })
})

function replaced(file: string, change: (bytes: Buffer) => Buffer): () => void {
  const bytes = fs.readFileSync(file)
  fs.writeFileSync(file, change(Buffer.from(bytes)))
  return () => fs.writeFileSync(file, bytes)
}

function flipped(bytes: Buffer, at: number): Buffer {
  bytes.writeUInt8(bytes.readUInt8(at) ^ 0x10, at)
  return bytes
}
