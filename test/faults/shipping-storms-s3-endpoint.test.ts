import { afterAll, beforeAll, expect, test } from 'vitest'
import { ShippingStorm } from '../support/backup/shipping-storm.ts'
import { runStorms } from '../support/backup/storms.ts'
import { countOf } from '../support/counts.ts'
import { endpointOfTests } from '../support/s3/endpoint-of-tests.ts'
import type { LocalS3 } from '../support/s3/s3rver.ts'
import { ScriptedS3 } from '../support/s3/scripted-s3.ts'

const STORMS = countOf('CELLSTORE_SHIPPING_STORMS')
const STEPS = 20

/** Unlike s3rver, the S3 in memory honours conditional writes, which the durability remote needs. */
let endpoint: LocalS3
beforeAll(async () => {
  endpoint = await endpointOfTests(() => ScriptedS3.start())
})
afterAll(() => endpoint.stop())

test(`A node that ships to a bucket which fails in every way, and is lost or taken over meanwhile, keeps what it has promised, and brings back nothing that was never committed: ${STORMS} storms of ${STEPS} steps (invariants 1, 10, 14)`, {
  timeout: 180_000 + STORMS * 240_000,
}, async () => {
  const totals = await runStorms(
    endpoint,
    { storms: STORMS, steps: STEPS },
    (bucket) => new ShippingStorm(bucket),
  )
  expect(totals['promised']).toBeGreaterThan(STORMS * 5)
})
