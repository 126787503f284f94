import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import type { S3ObjectStoreOptions } from '../../src/backup/object-store/s3/s3-settings.ts'
import { ShippingStorm } from '../support/backup/shipping-storm.ts'
import { countOf } from '../support/counts.ts'
import { Random } from '../support/random.ts'
import { FaultProxy } from '../support/s3/fault-proxy.ts'
import { S3Place, s3FromEnvironment } from '../support/s3/s3-place.ts'
import { ScriptedS3 } from '../support/s3/scripted-s3.ts'
import { seededRandom } from '../support/seed.ts'

const STORMS = countOf('CELLSTORE_SHIPPING_STORMS')
const STEPS = 20

/** The endpoint of the environment, or an S3 in memory: unlike s3rver, it honours conditional writes. */
const real = s3FromEnvironment()
let scripted: ScriptedS3 | undefined
let bucket: S3ObjectStoreOptions & { endpoint: string }
beforeAll(async () => {
  if (real?.endpoint === undefined) {
    scripted = await ScriptedS3.start()
    bucket = { bucket: scripted.bucket, endpoint: scripted.endpoint, credentials: scripted.credentials }
    return
  }
  const place = new S3Place(real)
  await place.makeBucket()
  place.close()
  bucket = { ...real, endpoint: real.endpoint }
})
afterAll(() => scripted?.stop())

describe('A node that ships to a bucket which fails in every way, and is lost or taken over meanwhile,', () => {
  test(`keeps what it has promised, and brings back nothing that was never committed: ${STORMS} storms of ${STEPS} steps (invariants 1, 10, 14)`, {
    timeout: 60_000 + STORMS * 240_000,
  }, async () => {
    const seeds = seededRandom()
    const totals: Record<string, number> = {}
    for (let run = 0; run < STORMS; run++) {
      const seed = seeds.below(2 ** 31)
      const random = new Random(seed)
      const proxy = await FaultProxy.start(bucket.endpoint, random)
      const storm = new ShippingStorm(proxy, bucket, random, 0.05 + random.below(30) / 100)
      try {
        await storm.start()
        for (let step = 0; step < STEPS; step++) await storm.step()
        await storm.prove()
      } catch (error) {
        throw new Error(`storm ${run}, seed ${seed}, after: ${storm.steps.join(', ')}`, { cause: error })
      } finally {
        await storm.dispose()
        await proxy.stop()
      }
      for (const [what, count] of [...Object.entries(storm.counts), ...proxy.injected])
        totals[what] = (totals[what] ?? 0) + count
    }
    console.info(JSON.stringify(totals))
    expect(totals['promised']).toBeGreaterThan(STORMS * 5)
  })
})
