import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import type { S3ObjectStoreOptions } from '../../src/backup/object-store/s3/s3-settings.ts'
import { BucketStorm } from '../support/backup/bucket-storm.ts'
import { countOf } from '../support/counts.ts'
import { Random } from '../support/random.ts'
import { FaultProxy } from '../support/s3/fault-proxy.ts'
import { S3Place, s3FromEnvironment } from '../support/s3/s3-place.ts'
import { type LocalS3, startS3rver } from '../support/s3/s3rver.ts'
import { seededRandom } from '../support/seed.ts'

const STORMS = countOf('CELLSTORE_BUCKET_STORMS')
const STEPS = 20

/** The endpoint of the environment, or s3rver. */
const real = s3FromEnvironment()
let local: LocalS3 | undefined
let bucket: S3ObjectStoreOptions & { endpoint: string }
beforeAll(async () => {
  if (real?.endpoint === undefined) {
    local = await startS3rver()
    bucket = { bucket: local.bucket, endpoint: local.endpoint, credentials: local.credentials }
    return
  }
  const place = new S3Place(real)
  await place.makeBucket()
  place.close()
  bucket = { ...real, endpoint: real.endpoint }
})
afterAll(() => local?.stop())

describe('A bucket that fails in every way loses nothing, and nothing is silent (invariants 9, 10, 14):', () => {
  test(`${STORMS} storms of ${STEPS} steps`, { timeout: 60_000 + STORMS * 120_000 }, async () => {
    const seeds = seededRandom()
    const totals = { stored: 0, refused: 0, restored: 0, lost: 0, proven: 0 }
    const injected: Record<string, number> = {}
    for (let run = 0; run < STORMS; run++) {
      const seed = seeds.below(2 ** 31)
      const random = new Random(seed)
      const proxy = await FaultProxy.start(bucket.endpoint, random)
      const storm = new BucketStorm(proxy, bucket, random, 0.05 + random.below(30) / 100)
      try {
        await storm.start()
        for (let step = 0; step < STEPS; step++) await storm.step()
        totals.proven += await storm.prove()
      } catch (error) {
        throw new Error(`storm ${run}, seed ${seed}, after: ${storm.steps.join(', ')}`, { cause: error })
      } finally {
        await storm.dispose()
        await proxy.stop()
      }
      for (const key of Object.keys(storm.counts) as (keyof typeof storm.counts)[])
        totals[key] += storm.counts[key]
      for (const [fault, count] of proxy.injected) injected[fault] = (injected[fault] ?? 0) + count
    }
    console.info(JSON.stringify({ ...totals, injected }))
    expect(totals.refused).toBeGreaterThan(0)
    expect(totals.stored).toBeGreaterThan(STORMS * 5)
  })
})
