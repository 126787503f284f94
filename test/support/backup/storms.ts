import { Random } from '../random.ts'
import type { LocalS3 } from '../s3/s3rver.ts'
import { seededRandom } from '../seed.ts'
import { StormyBucket } from './stormy-bucket.ts'

/** What a store does while its bucket fails, and the proof that nothing came of it. */
export interface Storm {
  readonly counts: Readonly<Record<string, number>>
  /** For the message of a failure. */
  readonly steps: readonly string[]
  start(): Promise<void>
  step(): Promise<void>
  /** The bucket is well again. */
  prove(): Promise<void>
  dispose(): Promise<void>
}

/** Runs storms, each with a seed and a prefix of its own. @returns what was counted, of all together */
export async function runStorms(
  endpoint: LocalS3,
  { storms, steps }: { storms: number; steps: number },
  begin: (bucket: StormyBucket) => Storm,
): Promise<Record<string, number>> {
  const seeds = seededRandom()
  const totals: Record<string, number> = {}
  for (let run = 0; run < storms; run++) {
    const seed = seeds.below(2 ** 31)
    const bucket = await StormyBucket.begin(endpoint, new Random(seed))
    const storm = begin(bucket)
    try {
      await storm.start()
      for (let step = 0; step < steps; step++) await storm.step()
      bucket.calm()
      await storm.prove()
    } catch (error) {
      throw new Error(`storm ${run}, seed ${seed}, after: ${storm.steps.join(', ')}`, { cause: error })
    } finally {
      bucket.calm()
      await storm.dispose()
      await bucket.stop()
    }
    const { refused, injected } = bucket
    for (const [what, count] of Object.entries({ ...storm.counts, refused, ...injected }))
      totals[what] = (totals[what] ?? 0) + count
  }
  console.info(JSON.stringify(totals))
  return totals
}
