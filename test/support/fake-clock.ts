import { SteppedClock } from '../../src/testing/stepped-clock.ts'

/** Where the clock of a test begins: any instant would do, as long as it is the same in every run. */
export const TEST_EPOCH_MS = Date.UTC(2026, 0, 1)

/** The package's own clock for tests. */
export class FakeClock extends SteppedClock {
  constructor(now = TEST_EPOCH_MS) {
    super(now)
  }
}
