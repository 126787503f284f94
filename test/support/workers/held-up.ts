import type { WorkerStore } from '../worker-store.ts'

/**
 * Runs a statement, each time with twice the rows, beside a neighbour who asks all the time, until a worker is ended for it. How long
 * rows take is the machine's: no fixed number of them holds up anybody on a fast one.
 *
 * @returns the rows that it had then
 */
export async function untilHeldUp(
  node: WorkerStore,
  neighbour: () => Promise<unknown>,
  statement: (rows: number) => Promise<unknown>,
): Promise<number> {
  const heldUp = () => node.lostWorkers.filter(({ fields }) => fields['reason'] === 'held-up').length
  const before = heldUp()
  for (let rows = 200_000; ; rows *= 2) {
    let isOver = false
    const asking = (async () => {
      while (!isOver) await neighbour()
    })()
    await statement(rows).finally(() => {
      isOver = true
    })
    await asking
    if (heldUp() > before) return rows
  }
}
