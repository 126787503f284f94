import { S3ObjectStore } from '../../../src/backup/object-store/s3/s3-object-store.ts'
import type { Random } from '../random.ts'
import { endpointOfTests } from './endpoint-of-tests.ts'
import { FaultProxy } from './fault-proxy.ts'
import { S3Place } from './s3-place.ts'
import type { LocalS3 } from './s3rver.ts'
import { ScriptedS3 } from './scripted-s3.ts'

/** A bucket behind a proxy: of the endpoint of the environment, or of an S3 in memory that honours conditional writes. */
export class ProxiedBucket {
  readonly proxy: FaultProxy
  readonly #endpoint: LocalS3

  private constructor(proxy: FaultProxy, endpoint: LocalS3) {
    this.proxy = proxy
    this.#endpoint = endpoint
  }

  static async start(random: Random): Promise<ProxiedBucket> {
    const endpoint = await endpointOfTests(() => ScriptedS3.start())
    return new ProxiedBucket(await FaultProxy.start(endpoint.endpoint, random), endpoint)
  }

  get name(): string {
    return this.#endpoint.bucket
  }

  /** Another proxy to the same bucket, for a node whose requests are counted alone. */
  anotherProxy(random: Random): Promise<FaultProxy> {
    return FaultProxy.start(this.#endpoint.endpoint, random)
  }

  /** As nodes are told it. */
  url(prefix: string, { endpoint } = this.proxy): string {
    const query = new URLSearchParams({ endpoint, region: 'us-east-1', path_style: 'true' })
    return `s3://${this.name}/${prefix}?${query}`
  }

  /** What a node needs to use it. */
  environment(prefix: string): Record<string, string> {
    const { accessKeyId, secretAccessKey } = this.#endpoint.credentials
    return {
      CELLSTORE_OBJECT_STORE: this.url(prefix),
      AWS_ACCESS_KEY_ID: accessKeyId,
      AWS_SECRET_ACCESS_KEY: secretAccessKey,
    }
  }

  objects(prefix: string): S3ObjectStore {
    const { credentials } = this.#endpoint
    return new S3ObjectStore({ bucket: this.name, endpoint: this.proxy.endpoint, prefix, credentials })
  }

  /** Begins an upload that nobody finishes. @param key in the bucket */
  async strand(key: string): Promise<void> {
    const { bucket, endpoint, credentials } = this.#endpoint
    const place = new S3Place({ bucket, endpoint, credentials })
    await place.strand(key)
    place.close()
  }

  async stop(): Promise<void> {
    await this.proxy.stop()
    await this.#endpoint.stop()
  }
}
