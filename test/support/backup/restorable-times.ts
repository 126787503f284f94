import { expect } from 'vitest'

const TIME = expect.stringMatching(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/)
const RANGE = { from: TIME, to: TIME }

/** One range as soon as a log object shows what was committed between the two; until then each version has its own. */
export const TIMES_OF_TWO_VERSIONS = expect.toBeOneOf([[RANGE], [RANGE, RANGE]])
