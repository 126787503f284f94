import { S3ObjectStore } from '../../../src/backup/object-store/s3/s3-object-store.ts'
import type { S3Patience } from '../../../src/backup/object-store/s3/s3-settings.ts'
import type { Clock } from '../../../src/base/clock.ts'
import { perTest } from '../per-test.ts'
import { failure, type S3Request, type Script, ScriptedS3 } from './scripted-s3.ts'

const MIB = 1024 * 1024
export const THREE_TRIES: Partial<S3Patience> = { attempts: 3 }
/** Short waits, for tests where what is waited for never comes. */
export const HASTY: Partial<S3Patience> = {
  requestMs: 200,
  idleMs: 200,
  slowestBytesPerSecond: 1e9,
  attempts: 3,
}

/** A scripted endpoint and the stores over it, which send anything above 5 MiB in parts. */
export class FaultyPlace {
  readonly s3: ScriptedS3
  readonly #opened: S3ObjectStore[] = []

  private constructor(s3: ScriptedS3) {
    this.s3 = s3
  }

  /** One for each test: see {@link perTest}. */
  static perTest(): FaultyPlace {
    return perTest(
      () => FaultyPlace.start(),
      (place) => place.stop(),
    )
  }

  static async start(): Promise<FaultyPlace> {
    // A store loads the SDK with its first request. The short deadlines of these tests are only for the endpoint.
    await Promise.all([import('@aws-sdk/client-s3'), import('@aws-sdk/lib-storage')])
    return new FaultyPlace(await ScriptedS3.start())
  }

  open(patience = THREE_TRIES, clock?: Clock): S3ObjectStore {
    const { bucket, endpoint, credentials } = this.s3
    const store = new S3ObjectStore({
      bucket,
      endpoint,
      credentials,
      partSizeBytes: 5 * MIB,
      patience,
      clock,
    })
    this.#opened.push(store)
    return store
  }

  async stop(): Promise<void> {
    await Promise.all(this.#opened.map((store) => store.close()))
    await this.s3.stop()
  }
}

export const isPut = ({ method, query }: S3Request) => method === 'PUT' && !query.has('uploadId')
export const isGet = ({ method, key }: S3Request) => method === 'GET' && key !== ''
export const isPart = ({ method, query }: S3Request) => method === 'PUT' && query.has('partNumber')
export const isBegin = ({ method, query }: S3Request) => method === 'POST' && query.has('uploads')
export const isComplete = ({ method, query }: S3Request) => method === 'POST' && query.has('uploadId')
export const isHead = ({ method, key }: S3Request) => method === 'HEAD' && key !== ''
export const all = () => true

export const answer =
  (status: number, code: string): Script =>
  (_, { send }) =>
    send(failure(status, code))
export const carryOutAndAnswer =
  (status: number, code: string): Script =>
  (_, { carryOut, send }) => {
    carryOut()
    send(failure(status, code))
  }
export const drop: Script = (_, exchange) => exchange.drop()
export const carryOutAndDrop: Script = (_, exchange) => {
  exchange.carryOut()
  exchange.drop()
}
export const neverAnswer: Script = () => {}
