import { setTimeout as sleep, setImmediate as turnOfTheLoop } from 'node:timers/promises'
import type { CellStore } from '../../src/store/cell-store.ts'
import type { SteppedClock } from '../../src/testing/stepped-clock.ts'

/** Lets time pass as fast as it really does until `work` settles. */
export async function inRealTime<T>(clock: SteppedClock, work: Promise<T>): Promise<T> {
  let isSettled = false
  const settled = () => {
    isSettled = true
  }
  work.then(settled, settled)
  await realTimeUntil(clock, () => isSettled)
  return work
}

/** Lets time pass at once, and a real millisecond for what that has begun. Then it passes as it really does, until the tick that was due has shipped everything. */
export async function pass(clock: SteppedClock, store: CellStore, ms: number, lagMs: number): Promise<void> {
  clock.advance(ms)
  await sleep(1)
  await realTimeUntil(clock, () => clock.now() - (store.backups.shipping?.backedUpTo ?? 0) <= lagMs + ms)
}

async function realTimeUntil(clock: SteppedClock, isSo: () => boolean): Promise<void> {
  for (;;) {
    await turnOfTheLoop()
    if (isSo()) return
    await sleep(1)
    clock.advance(1)
  }
}
