import { describe, expect, test } from 'vitest'
import {
  consequenceOf,
  killReason,
  type LookedAtWork,
  type WorkerEnd,
} from '../../../src/workers/node/placement/worker-ends.ts'

const BOUNDS = { blockMs: 40, silentMs: 30_000, memoryMax: 800, logBytesMax: 100 }
const WORK: LookedAtWork = {
  ranMs: 41,
  statementMs: 5_000,
  loggedBytes: 0,
  isAbandoned: false,
  heldUp: 'neighbours',
  isAlone: false,
  mayMove: true,
}
const look = (work: Partial<LookedAtWork>, { memory = 0, silentMs = 0 } = {}) =>
  killReason({ memory, silentMs, work: { ...WORK, ...work } }, BOUNDS)

describe('a worker is ended', () => {
  test.each<[string | undefined, Partial<LookedAtWork>]>([
    ['timeout', { ranMs: 5_001 }],
    ['log', { ranMs: 10, loggedBytes: 101 }],
    ['abandoned', { isAbandoned: true, heldUp: 'nobody' }],
    [undefined, { isAbandoned: true, ranMs: 40 }],
    ['held-up', {}],
    [undefined, { ranMs: 40 }],
    // Nobody else has to be protected while it is alone, and then its own cells are.
    ['held-up', { heldUp: 'own', isAlone: true }],
    [undefined, { heldUp: 'own' }],
    [undefined, { heldUp: 'nobody', isAlone: true }],
    // In the slow worker, without a spare one, or if it has cost too many.
    [undefined, { mayMove: false }],
  ])('%s: %j', (reason, work) => {
    expect(look(work)).toBe(reason)
  })

  test('for its memory and its silence, whatever it does', () => {
    expect(look({ ranMs: 1 }, { memory: 701 })).toBe('memory')
    expect(look({ ranMs: 1 }, { memory: 700 })).toBeUndefined()
    expect(killReason({ memory: 0, silentMs: 30_001, work: undefined }, BOUNDS)).toBe('silent')
    expect(killReason({ memory: 0, silentMs: 30_000, work: undefined }, BOUNDS)).toBeUndefined()
  })
})

const HOME: Omit<WorkerEnd, 'cause'> = {
  ran: 'statement',
  isSlowWorker: false,
  ranAlone: false,
  hasHeaviest: false,
}
const SLOW = { ...HOME, isSlowWorker: true }

describe('what follows from its end', () => {
  test.each<[WorkerEnd, moves: string, charges: string, suspects: string, answer?: string]>([
    [{ ...HOME, cause: 'timeout' }, 'culprit', 'cell', 'nobody', 'timeout'],
    [{ ...SLOW, cause: 'timeout', ran: 'task' }, 'culprit', 'cell', 'nobody', 'timeout'],
    [{ ...HOME, cause: 'log', ran: 'commit' }, 'culprit', 'cell', 'nobody', 'log'],
    [{ ...HOME, cause: 'abandoned' }, 'culprit', 'cell', 'nobody'],
    [{ ...HOME, cause: 'held-up' }, 'culprit', 'account', 'nobody'],
    [{ ...HOME, cause: 'memory' }, 'culprit', 'nobody', 'culprit'],
    [{ ...HOME, cause: 'memory', ranAlone: true }, 'culprit', 'nobody', 'culprit'],
    [{ ...SLOW, cause: 'memory' }, 'culprit', 'nobody', 'culprit'],
    [{ ...SLOW, cause: 'memory', ranAlone: true }, 'culprit', 'cell', 'nobody', 'memory'],
    [{ ...HOME, cause: 'memory', hasHeaviest: true }, 'heaviest', 'account', 'nobody'],
    [{ ...HOME, cause: 'memory', ran: undefined }, 'nobody', 'nobody', 'batch'],
    [{ ...HOME, cause: 'exited' }, 'culprit', 'nobody', 'culprit'],
    // Its log tells whether it was made: it is no suspect.
    [{ ...HOME, cause: 'exited', ran: 'commit' }, 'nobody', 'nobody', 'batch'],
    [{ ...HOME, cause: 'silent', ran: undefined }, 'nobody', 'nobody', 'batch'],
  ])('%j', (end, moves, charges, suspects, answer) => {
    expect(consequenceOf(end)).toEqual({ moves, charges, suspects, ...(answer && { answer }) })
  })
})
