import { type ChildProcess, fork } from 'node:child_process'
import { once } from 'node:events'
import path from 'node:path'
import type { Announcement } from './slow-bucket.ts'

/** The bucket of slow-bucket.ts in a process of its own, and its URL for a store. */
export class SlowBucket {
  readonly url: string
  readonly #child: ChildProcess

  private constructor(child: ChildProcess, url: string) {
    this.#child = child
    this.url = url
  }

  /** Sets the credentials in this process's environment, from where the archiver gets them. */
  static async start(latencyMs: number): Promise<SlowBucket> {
    const child = fork(path.join(import.meta.dirname, 'slow-bucket.ts'), [String(latencyMs)])
    const [{ endpoint, bucket, credentials }] = (await once(child, 'message')) as [Announcement]
    process.env['AWS_ACCESS_KEY_ID'] = credentials.accessKeyId
    process.env['AWS_SECRET_ACCESS_KEY'] = credentials.secretAccessKey
    return new SlowBucket(child, `s3://${bucket}?${new URLSearchParams({ endpoint, path_style: 'true' })}`)
  }

  /** Requests by kind since the last call. */
  async counts(): Promise<Record<string, number>> {
    this.#child.send('count')
    const [counts] = await once(this.#child, 'message')
    return counts as Record<string, number>
  }

  stop(): void {
    this.#child.disconnect()
  }
}
