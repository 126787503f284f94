import crypto from 'node:crypto'
import fs from 'node:fs'
import os from 'node:os'
import path from 'node:path'
import S3rver from 's3rver'
import type { S3Credentials } from '../../../src/backup/object-store/s3/s3-settings.ts'

export interface LocalS3 {
  endpoint: string
  bucket: string
  credentials: S3Credentials
  stop(): Promise<void>
}

const { createCipheriv, createDecipheriv } = crypto

/**
 * s3rver makes its list tokens with DES, which OpenSSL 3 no longer has: every list of more than one page would end in a
 * 500. Triple DES with one key three times over is the same cipher, and still there.
 */
function bringBackDes(): void {
  const tripled = (key: crypto.CipherKey) =>
    Buffer.concat(Array.from({ length: 3 }, () => Buffer.from(key as Buffer)))
  Object.assign(crypto, {
    createCipheriv: (name: string, key: crypto.CipherKey, iv: crypto.BinaryLike | null) =>
      name === 'des' ? createCipheriv('des-ede3-cbc', tripled(key), iv) : createCipheriv(name, key, iv),
    createDecipheriv: (name: string, key: crypto.CipherKey, iv: crypto.BinaryLike | null) =>
      name === 'des' ? createDecipheriv('des-ede3-cbc', tripled(key), iv) : createDecipheriv(name, key, iv),
  })
}

/**
 * Starts s3rver on a free port of 127.0.0.1, in a folder of its own, with one empty bucket. It takes no notice of
 * conditions and can neither list nor end unfinished uploads.
 */
export async function startS3rver(bucket = 'cellstore-test'): Promise<LocalS3> {
  bringBackDes()
  const directory = fs.mkdtempSync(path.join(os.tmpdir(), 'cellstore-s3rver-'))
  const server = new S3rver({
    address: '127.0.0.1',
    port: 0,
    silent: true,
    directory,
    configureBuckets: [{ name: bucket }],
  })
  const { port } = await server.run()
  return {
    endpoint: `http://127.0.0.1:${port}`,
    bucket,
    credentials: { accessKeyId: 'S3RVER', secretAccessKey: 'S3RVER' },
    stop: async () => {
      await server.close()
      fs.rmSync(directory, { recursive: true, force: true })
    },
  }
}
