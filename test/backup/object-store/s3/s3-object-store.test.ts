import { afterAll, beforeAll, describe } from 'vitest'
import { S3Place } from '../../../support/s3/s3-place.ts'
import { type LocalS3, startS3rver } from '../../../support/s3/s3rver.ts'
import { ScriptedS3 } from '../../../support/s3/scripted-s3.ts'
import { fenceContract } from '../../fence/fence.contract.ts'
import { objectStoreContract } from '../object-store.contract.ts'

describe('With s3rver', () => {
  let s3rver: LocalS3
  let place: S3Place

  beforeAll(async () => {
    s3rver = await startS3rver()
    place = new S3Place(s3rver)
  })
  afterAll(async () => {
    place.close()
    await s3rver.stop()
  })

  // It takes no notice of conditions, and can neither list nor end uploads.
  const abilities = { conditionalPuts: false, conditionalCompletion: false, listsUploads: false }
  objectStoreContract('the S3 store', async () => place.subject(abilities))
  fenceContract('the S3 store', async () => place.subject(abilities))
})

describe('With an S3 that honours conditions', () => {
  let scripted: ScriptedS3
  let place: S3Place

  beforeAll(async () => {
    scripted = await ScriptedS3.start()
    const { bucket, endpoint, credentials } = scripted
    place = new S3Place({ bucket, endpoint, credentials })
  })
  afterAll(async () => {
    place.close()
    await scripted.stop()
  })

  const abilities = { conditionalPuts: true, conditionalCompletion: true, listsUploads: true }
  objectStoreContract('the S3 store', async () => place.subject(abilities))
  fenceContract('the S3 store', async () => place.subject(abilities))
})
