import { setImmediate as turnOfTheLoop } from 'node:timers/promises'
import { expect, test } from 'vitest'
import { AccountPace } from '../../src/base/fairness/account-pace.ts'
import { CellError } from '../../src/errors.ts'
import { FakeClock } from '../support/fake-clock.ts'

function paceOf(burst: number, clock: FakeClock): AccountPace {
  return new AccountPace({ perSecond: 0.2, burst, waitingMax: 100, what: 'restores' }, clock)
}

test('An account that comes too often waits for its turns, and its neighbour does not', async () => {
  const clock = new FakeClock()
  const pace = paceOf(2, clock)
  const passed: string[] = []
  const ask = (account: string) => pace.turn(account, undefined).then(() => passed.push(account))
  for (let i = 0; i < 4; i++) void ask('mine')
  void ask('yours')
  for (const expected of [['mine', 'mine', 'yours'], ['mine'], ['mine']]) {
    await turnOfTheLoop()
    expect(passed.splice(0)).toEqual(expected)
    clock.advance(5_000)
  }
})

test('A wait ends with its signal', async () => {
  const pace = paceOf(1, new FakeClock())
  await pace.turn('mine', undefined)
  const abort = new AbortController()
  const waiting = pace.turn('mine', abort.signal)
  abort.abort(new Error('gone'))
  await expect(waiting).rejects.toThrow('gone')
})

test('Those whose wait ends early take no turn from those that come later', async () => {
  const clock = new FakeClock()
  const pace = paceOf(1, clock)
  await pace.turn('mine', undefined)
  const abort = new AbortController()
  const gone = Array.from({ length: 99 }, () => pace.turn('mine', abort.signal).catch(() => 'gone'))
  const stays = pace.turn('mine', undefined).then(() => 'stays')
  abort.abort(new Error('gone'))
  expect(new Set(await Promise.all(gone))).toEqual(new Set(['gone']))
  clock.advance(5_000)
  expect(await Promise.race([stays, turnOfTheLoop('waits')])).toBe('stays')
  expect(clock.nextTimerMs).toBeUndefined()
  await expect(pace.turn('mine', AbortSignal.abort(new Error('before')))).rejects.toThrow('before')
  clock.advance(5_000)
  await pace.turn('mine', undefined)
})

test('No more than a hundred of an account wait: the next one is told when to come again, and its neighbour is not refused', async () => {
  const clock = new FakeClock()
  const pace = paceOf(1, clock)
  for (let i = 0; i <= 100; i++) pace.turn('mine', undefined).catch(() => {})
  await expect(pace.turn('mine', undefined)).rejects.toMatchObject({
    code: 'rate_limited',
    message: expect.stringContaining('100 restores of the account'),
    details: { limit: 100, retryAfterMs: 5_000 },
  })
  await pace.turn('yours', undefined)
  clock.advance(5_000)
  await turnOfTheLoop()
  const waits = pace.turn('mine', undefined)
  clock.advance(100 * 5_000)
  await waits
})

test('A stop ends all waits, leaves no timer that keeps the process alive, and refuses who comes later', async () => {
  const clock = new FakeClock()
  const pace = paceOf(1, clock)
  const turns = ['mine', 'mine', 'yours', 'yours'].map((account) => pace.turn(account, undefined))
  const closed = new CellError('store_closed', 'The store is closed.')
  pace.stop(closed)
  const ends = await Promise.allSettled([...turns, pace.turn('other', undefined)])
  expect(ends.map((end) => end.status === 'fulfilled' || end.reason)).toEqual([
    true,
    closed,
    true,
    closed,
    closed,
  ])
  expect(clock.nextTimerMs).toBeUndefined()
})
