import { oneAtATime } from '../library/works.ts'
import { commit, type Row, type Unit } from '../results.ts'
import { takeTurns } from '../turns.ts'

/** Only cellstore grows here: the row says how the same costs at another size. */
export async function growthRow(
  what: string,
  unit: Unit,
  size: { at: number; of: 'entries' | 'cells' },
  rounds: number,
  measure: () => Promise<number>,
): Promise<Row> {
  const contender = { name: 'cellstore', version: `cellstore ${commit()}` }
  const contenders = await takeTurns([contender], { rounds, turn: async () => ({ value: await measure() }) })
  return { group: 'growth', what, unit, ...size, contenders }
}

export async function microseconds(turnMs: number, run: (i: number) => unknown): Promise<number> {
  return 1_000_000 / (await oneAtATime(turnMs, run)).value
}

/** A large prime: neighbours in time are none in the file. */
const STEP = 7_368_787

export function scattered(i: number, size: number): number {
  return (i * STEP) % size
}
