import { afterAll, beforeAll, expect, test } from 'vitest'
import { BucketStorm } from '../support/backup/bucket-storm.ts'
import { runStorms } from '../support/backup/storms.ts'
import { countOf } from '../support/counts.ts'
import { endpointOfTests } from '../support/s3/endpoint-of-tests.ts'
import { type LocalS3, startS3rver } from '../support/s3/s3rver.ts'

const STORMS = countOf('CELLSTORE_BUCKET_STORMS')
const STEPS = 20

let endpoint: LocalS3
beforeAll(async () => {
  endpoint = await endpointOfTests(startS3rver)
})
afterAll(() => endpoint.stop())

test(`A bucket that fails in every way loses nothing, and nothing is silent: ${STORMS} storms of ${STEPS} steps (invariants 9, 10, 14)`, {
  timeout: 180_000 + STORMS * 120_000,
}, async () => {
  const totals = await runStorms(
    endpoint,
    { storms: STORMS, steps: STEPS },
    (bucket) => new BucketStorm(bucket),
  )
  expect(totals['refused']).toBeGreaterThan(0)
  expect(totals['stored']).toBeGreaterThan(STORMS * 5)
})
