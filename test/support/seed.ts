import { Random } from './random.ts'

/** The seed of every random test: fixed, so that each run of `npm test` is the same. `npm run soak` draws others. */
export const SEED = Number(process.env['CELLSTORE_SEED'] ?? 1)

/** Random choices that depend on the seed alone. */
export function seededRandom(): Random {
  return new Random(SEED)
}
