import { S3Place, s3FromEnvironment } from './s3-place.ts'
import type { LocalS3 } from './s3rver.ts'

/** The endpoint of the environment, with its bucket made; where there is none, one of this process. */
export async function endpointOfTests(startLocal: () => Promise<LocalS3>): Promise<LocalS3> {
  const real = s3FromEnvironment()
  if (real?.endpoint === undefined) return await startLocal()
  const place = new S3Place(real)
  await place.makeBucket()
  place.close()
  const { AWS_ACCESS_KEY_ID: accessKeyId = '', AWS_SECRET_ACCESS_KEY: secretAccessKey = '' } = process.env
  return {
    bucket: real.bucket,
    endpoint: real.endpoint,
    credentials: { accessKeyId, secretAccessKey },
    stop: async () => {},
  }
}
