import { afterAll, beforeAll, describe } from 'vitest'
import { objectStoreContract } from '../contracts/object-store.contract.ts'
import { S3Place } from '../support/s3-place.ts'
import { type LocalS3, startS3rver } from '../support/s3rver.ts'

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
})
