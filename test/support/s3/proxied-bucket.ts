import { S3ObjectStore } from '../../../src/backup/object-store/s3/s3-object-store.ts'
import type { Random } from '../random.ts'
import { FaultProxy } from './fault-proxy.ts'
import { S3Place, s3FromEnvironment } from './s3-place.ts'
import { ScriptedS3 } from './scripted-s3.ts'

/** A bucket behind a proxy: of the endpoint of the environment, or of an S3 in memory that honours conditional writes. */
export class ProxiedBucket {
  readonly proxy: FaultProxy
  readonly name: string
  readonly #credentials: { accessKeyId: string; secretAccessKey: string }
  readonly #scripted: ScriptedS3 | undefined

  private constructor(
    proxy: FaultProxy,
    name: string,
    credentials: { accessKeyId: string; secretAccessKey: string },
    scripted: ScriptedS3 | undefined,
  ) {
    this.proxy = proxy
    this.name = name
    this.#credentials = credentials
    this.#scripted = scripted
  }

  static async start(random: Random): Promise<ProxiedBucket> {
    const real = s3FromEnvironment()
    if (real?.endpoint === undefined) {
      const scripted = await ScriptedS3.start()
      const { bucket, endpoint, credentials } = scripted
      return new ProxiedBucket(await FaultProxy.start(endpoint, random), bucket, credentials, scripted)
    }
    const place = new S3Place(real)
    await place.makeBucket()
    place.close()
    const { AWS_ACCESS_KEY_ID: accessKeyId = '', AWS_SECRET_ACCESS_KEY: secretAccessKey = '' } = process.env
    const proxy = await FaultProxy.start(real.endpoint, random)
    return new ProxiedBucket(proxy, real.bucket, { accessKeyId, secretAccessKey }, undefined)
  }

  /** What a node needs to use it. */
  environment(prefix: string): Record<string, string> {
    const query = new URLSearchParams({
      endpoint: this.proxy.endpoint,
      region: 'us-east-1',
      path_style: 'true',
    })
    return {
      CELLSTORE_OBJECT_STORE: `s3://${this.name}/${prefix}?${query}`,
      AWS_ACCESS_KEY_ID: this.#credentials.accessKeyId,
      AWS_SECRET_ACCESS_KEY: this.#credentials.secretAccessKey,
    }
  }

  objects(prefix: string): S3ObjectStore {
    const { endpoint } = this.proxy
    return new S3ObjectStore({ bucket: this.name, endpoint, prefix, credentials: this.#credentials })
  }

  async stop(): Promise<void> {
    await this.proxy.stop()
    await this.#scripted?.stop()
  }
}
