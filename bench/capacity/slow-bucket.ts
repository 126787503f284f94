import { setTimeout as sleep } from 'node:timers/promises'
import { isProbe, proceed, ScriptedS3 } from '../../test/support/s3/scripted-s3.ts'

export interface Announcement {
  endpoint: string
  bucket: string
  credentials: { accessKeyId: string; secretAccessKey: string }
}

/**
 * An S3 in memory, in a process of its own, that answers each request after a delay (`process.argv[2]`, milliseconds). It
 * counts requests by kind; a message `count` gets the counts since the last one.
 */
const latencyMs = Number(process.argv[2] ?? 15)
const s3 = await ScriptedS3.start()
let counts: Record<string, number> = {}

s3.intercept = async (request, exchange) => {
  // Each request is also kept for tests, with its body.
  s3.requests.length = 0
  if (!isProbe(request)) {
    const { method, key, query } = request
    const kind =
      key === '' ? 'LIST' : query.has('uploadId') || query.has('uploads') ? `${method} part` : method
    counts[kind] = (counts[kind] ?? 0) + 1
  }
  await sleep(latencyMs)
  proceed(request, exchange)
}

process.on('message', () => {
  process.send?.(counts)
  counts = {}
})
process.on('disconnect', () => process.exit(0))
const { endpoint, bucket, credentials } = s3
const announcement: Announcement = { endpoint, bucket, credentials }
process.send?.(announcement)
