import { Random } from './sql/fuzz.ts'

/** A source of chance whose seed is printed; `CELLSTORE_SEED` repeats a run. */
export function seededRandom(test: string): Random {
  const { CELLSTORE_SEED } = process.env
  const seed = Number(CELLSTORE_SEED ?? Math.floor(Math.random() * 2 ** 31))
  console.info(`${test}: CELLSTORE_SEED=${seed}`)
  return new Random(seed)
}
