import { setImmediate as turnOfTheLoop } from 'node:timers/promises'
import { expect, test } from 'vitest'
import { AccountPace } from '../../src/base/account-pace.ts'
import { FakeClock } from '../support/fake-clock.ts'

test('An account that comes too often waits for its turns, and its neighbour does not', async () => {
  const clock = new FakeClock()
  const pace = new AccountPace({ perSecond: 0.2, burst: 2 }, clock)
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
  const pace = new AccountPace({ perSecond: 0.2, burst: 1 }, new FakeClock())
  await pace.turn('mine', undefined)
  const abort = new AbortController()
  const waiting = pace.turn('mine', abort.signal)
  abort.abort(new Error('gone'))
  await expect(waiting).rejects.toThrow('gone')
})

test('Those whose wait ends early take no turn from those that come later', async () => {
  const clock = new FakeClock()
  const pace = new AccountPace({ perSecond: 0.2, burst: 1 }, clock)
  await pace.turn('mine', undefined)
  const abort = new AbortController()
  const gone = Array.from({ length: 100 }, () => pace.turn('mine', abort.signal).catch(() => 'gone'))
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
