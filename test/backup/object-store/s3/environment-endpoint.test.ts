import { afterEach, describe, expect, onTestFinished, test, vi } from 'vitest'
import { bufferBody } from '../../../../src/backup/object-store/object-store.ts'
import { openObjectStore } from '../../../../src/backup/object-store/open-object-store.ts'
import { systemClock } from '../../../../src/base/clock.ts'
import { failure, proceed, ScriptedS3 } from '../../../support/s3/scripted-s3.ts'

const MIB = 1024 * 1024

/** An endpoint that does not know the checksums which AWS's client adds for Amazon's S3. */
async function withoutChecksums(): Promise<ScriptedS3> {
  const s3 = await ScriptedS3.start()
  onTestFinished(() => s3.stop())
  vi.stubEnv('AWS_ACCESS_KEY_ID', s3.credentials.accessKeyId)
  vi.stubEnv('AWS_SECRET_ACCESS_KEY', s3.credentials.secretAccessKey)
  s3.intercept = (request, exchange) => {
    const hasChecksum = Object.keys(request.headers).some((name) => /^x-amz-(sdk-)?checksum/.test(name))
    if (hasChecksum) exchange.send(failure(501, 'NotImplemented'))
    else proceed(request, exchange)
  }
  return s3
}

afterEach(() => void vi.unstubAllEnvs())

describe('An S3 that is not Amazon’s, named by', () => {
  test.each([
    ['endpoint=', (endpoint: string) => `?endpoint=${endpoint}`],
    ['AWS_ENDPOINT_URL', (endpoint: string) => void vi.stubEnv('AWS_ENDPOINT_URL', endpoint)],
    ['AWS_ENDPOINT_URL_S3', (endpoint: string) => void vi.stubEnv('AWS_ENDPOINT_URL_S3', endpoint)],
  ])(
    '%s: objects of any size are stored once and read back, and conditional writes are found',
    async (_, name) => {
      const s3 = await withoutChecksums()
      const query = name(s3.endpoint) ?? ''
      const store = openObjectStore(`s3://${s3.bucket}/prefix${query}`, { clock: systemClock })
      for (const bytes of [Buffer.from('small'), Buffer.alloc(9 * MIB, 7)]) {
        await store.put(`of-${bytes.length}`, bufferBody(bytes))
        expect((await store.head(`of-${bytes.length}`))?.size).toBe(bytes.length)
        await expect(store.put(`of-${bytes.length}`, bufferBody(bytes))).rejects.toMatchObject({
          code: 'object_exists',
        })
      }
      expect(await store.createsOnlyOnce?.()).toBe(true)
      await store.close()
    },
  )
})
