import { setImmediate as turnOfTheLoop } from 'node:timers/promises'
import { SteppedClock } from '../../src/testing/stepped-clock.ts'

/** Where the clock of a test begins: any instant would do, as long as it is the same in every run. */
export const TEST_EPOCH_MS = Date.UTC(2026, 0, 1)

/** The package's own clock for tests. */
export class FakeClock extends SteppedClock {
  constructor(now = TEST_EPOCH_MS) {
    super(now)
  }

  /**
   * Lets time pass from timer to timer until `work` settles. Real files are read and written in between, and no time
   * passes meanwhile: on a busy disk it would be days.
   *
   * @param timerMsMax longer ones stay
   */
  async advanceUntil<T>(work: Promise<T>, timerMsMax: number): Promise<T> {
    let settled = false
    const mark = () => {
      settled = true
    }
    work.then(mark, mark)
    while (!settled) {
      await turnOfTheLoop()
      const { nextTimerMs } = this
      if (settled || nextTimerMs === undefined || nextTimerMs > timerMsMax || isAtDisk()) continue
      this.advance(nextTimerMs)
    }
    return work
  }
}

/** Whether something waits for the disk. */
export function isAtDisk(): boolean {
  return process.getActiveResourcesInfo().some((each) => each.startsWith('FSReq'))
}
