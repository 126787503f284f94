import { beforeEach, describe, expect, test } from 'vitest'
import type { JobRequest } from '../../../src/backup/archiver/job.ts'
import { JobQueue, type Turn } from '../../../src/backup/archiver/job-queue.ts'
import { FakeClock } from '../../support/fake-clock.ts'
import { perTest } from '../../support/per-test.ts'
import { turnsUntil } from '../../support/turns.ts'

const MIB = 1_048_576
const WAIT_MS = 60_000
const RUN_MS = 600_000

const clock = perTest(() => new FakeClock())
let queue: JobQueue
/** Names of the jobs that have begun, in order. */
let begun: string[]
let ends: Map<string, () => void>

beforeEach(() => {
  begun = []
  ends = new Map()
  queue = newQueue()
})

function newQueue(most = 1, heavy = most): JobQueue {
  const limits = { waitingPerAccountMax: 4, waitingMax: 6, waitMs: WAIT_MS, runMs: RUN_MS }
  const atOnce = { backup: most, restore: most, verify: 1 }
  const heavyAtOnce = { backup: heavy, restore: heavy, verify: 1 }
  return new JobQueue({ ...limits, atOnce, heavyAtOnce }, clock)
}

/** Adds a job, named after its cell, that runs until it is ended. */
function add(
  cellId: string,
  request: Partial<JobRequest> = {},
  { signal, during = async () => {} }: { signal?: AbortSignal; during?: (turn: Turn) => Promise<void> } = {},
): Promise<string> {
  const whole: JobRequest = { lane: 'restore', cellId, account: 'a', need: 'requested', ...request }
  const ended = queue.run(whole, signal, async (turn) => {
    begun.push(cellId)
    await during(turn)
    await new Promise<void>((resolve, reject) => {
      ends.set(cellId, resolve)
      turn.signal.addEventListener('abort', () => reject(turn.signal.reason), { once: true })
    })
    return cellId
  })
  ended.catch(() => {})
  return ended
}

async function end(cellId: string): Promise<void> {
  await turnsUntil(() => ends.has(cellId), `${cellId} runs`)
  ends.get(cellId)?.()
  await turns()
}

async function turns(): Promise<void> {
  for (let turn = 0; turn < 5; turn++) await new Promise((resolve) => setImmediate(resolve))
}

describe('the order', () => {
  test('the most needed job comes first, whenever it came', async () => {
    add('running')
    add('drill', { need: 'background' })
    add('restore', { need: 'requested' })
    add('lost', { need: 'waiting' })
    for (const cell of ['running', 'lost', 'restore']) await end(cell)
    expect(begun).toEqual(['running', 'lost', 'restore', 'drill'])
  })

  test('a verification holds up no restore of its cell, and only one runs', async () => {
    add('cell', { lane: 'verify', need: 'background' })
    add('next', { lane: 'verify', need: 'background' })
    add('cell')
    await turns()
    expect(begun).toEqual(['cell', 'cell'])
  })

  test('a waiting job that is needed more than before moves up', async () => {
    add('running')
    add('first', { need: 'background' })
    add('second', { need: 'background' })
    queue.raise('second', 'waiting')
    await end('running')
    expect(begun).toEqual(['running', 'second'])
  })

  test('accounts take turns, however many jobs each has', async () => {
    add('running')
    for (const cell of ['a1', 'a2', 'a3']) add(cell, { account: 'a' })
    add('b1', { account: 'b' })
    add('c1', { account: 'c' })
    for (const cell of ['running', 'a1', 'b1', 'c1', 'a2']) await end(cell)
    expect(begun).toEqual(['running', 'a1', 'b1', 'c1', 'a2', 'a3'])
  })

  test('one job of a cell runs at a time, and does not hold up those behind it', async () => {
    queue = newQueue(3)
    add('cell', { lane: 'backup' })
    const second = add('cell', { lane: 'restore' })
    add('other')
    await turns()
    expect(begun).toEqual(['cell', 'other'])
    await end('cell')
    expect(begun).toEqual(['cell', 'other', 'cell'])
    await end('cell')
    expect(await second).toBe('cell')
  })

  test('backups and restores have slots of their own', async () => {
    add('upload', { lane: 'backup' })
    add('next upload', { lane: 'backup' })
    add('restore')
    await turns()
    expect(begun).toEqual(['upload', 'restore'])
  })

  test.each(['restore', 'backup'] as const)(
    'what an account asks for and never ends leaves a slot of the lane %s to others; requests that wait for its cells, and what the owner asks for, may have all',
    async (lane) => {
      queue = newQueue(4)
      for (const cell of ['1', '2', '3', '4']) add(cell, { lane })
      await turns()
      expect(begun).toEqual(['1', '2', '3'])
      add('neighbour', { lane, account: 'b' })
      await turns()
      expect(begun).toEqual(['1', '2', '3', 'neighbour'])
      await end('neighbour')
      add('recovery', { lane, need: 'background' })
      await turns()
      expect(begun.at(-1)).toBe('neighbour')
      queue.raise('recovery', 'waiting')
      await turns()
      expect(begun.at(-1)).toBe('recovery')
      await end('recovery')
      await end('1')
      expect(begun.at(-1)).toBe('4')
      for (const cell of ['2', '3', '4']) await end(cell)
      for (const cell of ['5', '6', '7', '8']) add(cell, { lane, account: '' })
      await turns()
      expect(begun.slice(-4)).toEqual(['5', '6', '7', '8'])
    },
  )

  test.each(['restore', 'backup'] as const)(
    'what nobody asked for has all slots of the lane %s but one, and at most half of them once others wait for the same',
    async (lane) => {
      queue = newQueue(6)
      const background = (account: string, ...cells: string[]) => {
        for (const cell of cells) add(cell, { lane, account, need: 'background' })
      }
      background('a', 'a1', 'a2', 'a3')
      await turns()
      background('a', 'a4')
      await turns()
      expect(begun).toEqual(['a1', 'a2', 'a3', 'a4'])
      background('b', 'b1', 'b2', 'b3')
      background('a', 'a5')
      await turns()
      expect(begun.slice(4)).toEqual(['b1', 'b2'])
      await end('a1')
      // Account a has half of the slots, and no turn before b.
      expect(begun.slice(6)).toEqual(['b3'])
      for (const cell of ['b1', 'b2', 'b3']) await end(cell)
      expect(begun.slice(7)).toEqual(['a5'])
      background('a', 'a6', 'a7')
      await turns()
      expect(begun.slice(8)).toEqual(['a6'])
      background('c', 'c1')
      await turns()
      expect(begun.slice(9)).toEqual(['c1'])
    },
  )

  test('large jobs leave a slot for small ones, and go on as soon as another large one ends', async () => {
    queue = newQueue(3)
    const moved: string[] = []
    const large = (cell: string) =>
      add(cell, { account: cell }, { during: moves(100, () => moved.push(cell)) })
    for (const cell of ['l1', 'l2', 'l3']) large(cell)
    add('small')
    await turns()
    expect(moved).toEqual(['l1', 'l2'])
    expect(begun).toEqual(['l1', 'l2', 'l3', 'small'])
    await end('small')
    expect(moved).toEqual(['l1', 'l2'])
    await end('l1')
    expect(moved).toEqual(['l1', 'l2', 'l3'])
  })

  test('of the jobs that run, only some may be heavy, and the others do not wait for these', async () => {
    queue = newQueue(6, 2)
    const moved: string[] = []
    const job = (cell: string, mebibytes: number) =>
      add(cell, { account: cell }, { during: moves(mebibytes, () => moved.push(cell)) })
    for (const cell of ['h1', 'h2', 'h3']) job(cell, 5)
    for (const cell of ['s1', 's2', 's3']) job(cell, 4)
    job('s4', 4)
    await turns()
    expect(moved).toEqual(['h1', 'h2', 's1', 's2', 's3', 's4'])
    await end('s1')
    expect(moved).not.toContain('h3')
    await end('h1')
    expect(moved.at(-1)).toBe('h3')
  })

  test.each([
    ['heavy', 5, 4],
    ['large', 100, 3],
  ])(
    'what an account asks for leaves a place for %s jobs to others; what the owner asks for, and what a request waits for, may have all',
    async (_, mebibytes, places) => {
      queue = newQueue(8, 4)
      const moved: string[] = []
      const job = (cell: string, account: string, need: JobRequest['need'] = 'requested') =>
        add(cell, { account, need }, { during: moves(mebibytes, () => moved.push(cell)) })
      for (const account of ['a', '']) for (let i = 1; i <= places; i++) job(`${account}${i}`, account)
      await turns()
      const all = Array.from({ length: places }, (_, i) => `${i + 1}`)
      expect(moved).toEqual([...all.slice(1).map((_, i) => `a${i + 1}`), '1'])
      for (const cell of moved.slice(0)) await end(cell)
      expect(moved.slice(places)).toEqual([`a${places}`, ...all.slice(1)])
      for (const cell of moved.slice(places)) await end(cell)
      for (const i of all) job(`waiting ${i}`, 'a', 'waiting')
      await turns()
      expect(moved.slice(2 * places)).toEqual(all.map((i) => `waiting ${i}`))
    },
  )

  test('heavy jobs that nobody asked for have half of the places for these once others wait for the same', async () => {
    queue = newQueue(8, 4)
    const moved: string[] = []
    const job = (cell: string, account: string) =>
      add(cell, { account, need: 'background' }, { during: moves(5, () => moved.push(cell)) })
    for (const cell of ['a1', 'a2', 'a3', 'a4']) job(cell, 'a')
    for (const cell of ['b1', 'b2']) job(cell, 'b')
    await turns()
    expect(moved).toEqual(['a1', 'a2', 'a3', 'b1'])
    await end('a1')
    expect(moved.slice(4)).toEqual(['b2'])
    await end('b1')
    expect(moved.slice(5)).toEqual(['a4'])
  })

  test('large restores in the background leave room for a large one that a request waits for', async () => {
    queue = newQueue(4)
    const moved: string[] = []
    const large = (cell: string, need: JobRequest['need']) =>
      add(cell, { need }, { during: moves(100, () => moved.push(cell)) })
    for (const cell of ['b1', 'b2', 'b3']) large(cell, 'background')
    await turns()
    expect(moved).toEqual(['b1', 'b2'])
    large('wanted', 'waiting')
    await turns()
    expect(moved).toEqual(['b1', 'b2', 'wanted'])
    await end('b1')
    await end('wanted')
    expect(moved).toEqual(['b1', 'b2', 'wanted', 'b3'])
  })

  test('of the places for large restores in the background, the next one that is free goes to the account that has none', async () => {
    queue = newQueue(4)
    const moved: string[] = []
    const large = (cell: string, account: string) =>
      add(cell, { account, need: 'background' }, { during: moves(100, () => moved.push(cell)) })
    for (const cell of ['a1', 'a2']) large(cell, 'a')
    // What comes after a third one of account a that has begun, and waits for a place.
    large('a3', 'a')
    await turns()
    large('b1', 'b')
    await turns()
    expect(moved).toEqual(['a1', 'a2'])
    await end('a1')
    expect(moved).toEqual(['a1', 'a2', 'b1'])
    large('b2', 'b')
    await end('b1')
    expect(moved.slice(3)).toEqual(['b2'])
    await end('b2')
    expect(moved.slice(4)).toEqual(['a3'])
  })

  test('a restore in the background that a request waits for now is no longer one, also once it runs', async () => {
    queue = newQueue(4)
    const moved: string[] = []
    const known = Promise.withResolvers<void>()
    const large = (cell: string, until = Promise.resolve()) => {
      const during = async (turn: Turn) => {
        await until
        await moves(100, () => moved.push(cell))(turn)
      }
      return add(cell, { need: 'background' }, { during })
    }
    for (const cell of ['b1', 'b2']) large(cell)
    for (const cell of ['wanted', 'later']) large(cell, known.promise)
    await turns()
    queue.raise('wanted', 'waiting')
    known.resolve()
    await turns()
    expect(moved).toEqual(['b1', 'b2', 'wanted'])
  })

  test('one that waits again for the room of a large one goes on at once when it is raised', async () => {
    queue = newQueue(4)
    const moved: string[] = []
    const large = (cell: string) =>
      add(cell, { need: 'background' }, { during: moves(100, () => moved.push(cell)) })
    for (const cell of ['b1', 'b2', 'wanted']) large(cell)
    await turns()
    expect(moved).toEqual(['b1', 'b2'])
    queue.raise('wanted', 'waiting')
    await turns()
    expect(moved).toEqual(['b1', 'b2', 'wanted'])
  })

  test('a job that turns out to be larger than it said counts as that', async () => {
    queue = newQueue(4, 2)
    const moved: string[] = []
    add('large', { account: 'b' }, { during: moves(100, () => moved.push('large')) })
    add(
      'grows',
      {},
      {
        during: async (turn) => {
          await moves(5, () => moved.push('heavy'))(turn)
          await moves(100, () => moved.push('grown'))(turn)
        },
      },
    )
    await turns()
    expect(moved).toEqual(['large', 'heavy'])
    await end('large')
    expect(moved).toEqual(['large', 'heavy', 'grown'])
  })
})

/** @param moved called when the job may go on */
function moves(mebibytes: number, moved: () => void) {
  return async ({ willMove }: Turn) => {
    await willMove(mebibytes * MIB)
    moved()
  }
}

describe('bounds (invariant 13)', () => {
  test('one account can not fill the queue, and all of them together can not either', async () => {
    add('running')
    for (let i = 0; i < 4; i++) add(`a${i}`)
    await expect(add('a4')).rejects.toMatchObject({
      code: 'rate_limited',
      details: { limit: 4, retryAfterMs: expect.any(Number) },
    })
    for (const cell of ['b', 'c']) add(cell, { account: cell })
    await expect(add('d', { account: 'd' })).rejects.toMatchObject({
      code: 'busy',
      details: { limit: 6, retryAfterMs: expect.any(Number) },
    })
    await end('running')
    add('d', { account: 'd' })
  })

  test('a waiting job ends as soon as its caller gives up, and never runs', async () => {
    add('running')
    const abort = new AbortController()
    const waiting = add('waiting', {}, { signal: abort.signal })
    await turns()
    abort.abort()
    await expect(waiting).rejects.toMatchObject({ code: 'busy' })
    await end('running')
    expect(begun).toEqual(['running'])
  })

  test('a job whose caller has given up before is not even queued', async () => {
    await expect(add('cell', {}, { signal: AbortSignal.abort() })).rejects.toMatchObject({ code: 'busy' })
    expect(begun).toEqual([])
  })

  test('a job waits so long and no longer', async () => {
    add('running')
    const waiting = add('waiting')
    await turns()
    clock.advance(WAIT_MS)
    await expect(waiting).rejects.toMatchObject({
      code: 'busy',
      details: { retryAfterMs: expect.any(Number) },
    })
    await end('running')
    expect(begun).toEqual(['running'])
  })

  test('one that runs is not ended by that time', async () => {
    const running = add('running')
    await turns()
    clock.advance(WAIT_MS)
    await end('running')
    expect(await running).toBe('running')
  })

  test('a job runs so long and no longer, also if it has had to wait again; its waiting does not count', async () => {
    add('running')
    const late = add('late')
    await turns()
    clock.advance(WAIT_MS - 1)
    await end('running')
    clock.advance(RUN_MS - 1)
    await turns()
    const next = add('next')
    expect(begun).toEqual(['running', 'late'])
    clock.advance(1)
    await expect(late).rejects.toMatchObject({
      code: 'busy',
      message: expect.stringContaining(`restore did not end within ${RUN_MS} ms (backups.deadlineMs)`),
      details: { limit: RUN_MS },
    })
    await end('next')
    expect(await next).toBe('next')
  })
})

describe('the end', () => {
  test('jobs may end until the deadline, and no new one comes in', async () => {
    const jobs = [add('running'), add('waiting')]
    const stopped = queue.stop(new AbortController().signal)
    await expect(add('late')).rejects.toMatchObject({ code: 'store_closed' })
    await end('running')
    await end('waiting')
    await stopped
    expect(await Promise.all(jobs)).toEqual(['running', 'waiting'])
  })

  test('those that have not ended by then are cancelled, running or waiting', async () => {
    const jobs = [add('running'), add('waiting')]
    await turns()
    const deadline = new AbortController()
    const stopped = queue.stop(deadline.signal)
    deadline.abort()
    await stopped
    for (const job of jobs) await expect(job).rejects.toMatchObject({ code: 'store_closed' })
    expect(begun).toEqual(['running'])
  })
})
