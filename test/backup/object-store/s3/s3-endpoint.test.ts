import { afterAll, beforeAll, describe } from 'vitest'
import { type Abilities, S3Place, s3FromEnvironment } from '../../../support/s3/s3-place.ts'
import { fenceContract } from '../../fence/fence.contract.ts'
import { objectStoreContract } from '../object-store.contract.ts'

const options = s3FromEnvironment()

describe.skipIf(options === undefined)('With the endpoint of CELLSTORE_TEST_S3_URL', () => {
  let place: S3Place
  let abilities: Abilities

  beforeAll(async () => {
    place = new S3Place(options ?? { bucket: 'none' })
    await place.makeBucket()
    abilities = await place.abilities()
    console.log('the endpoint can', JSON.stringify(abilities))
  })
  afterAll(() => place.close())

  objectStoreContract('the endpoint', async () => place.subject(abilities))
  fenceContract('the endpoint', async () => place.subject(abilities))
})
