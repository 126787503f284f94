import { setImmediate as turnOfTheLoop } from 'node:timers/promises'
import { expect, test } from 'vitest'
import { silentLog } from '../../src/base/log.ts'
import { LocalState } from '../../src/catalog/local-state.ts'
import { ExpiryHints } from '../../src/kv/expiry/expiry-hints.ts'
import { ExpirySweeper } from '../../src/kv/expiry/expiry-sweeper.ts'
import { FakeClock } from '../support/fake-clock.ts'
import { tempDirectory } from '../support/temp-directory.ts'

test('A cell whose worker does not get to it holds up the others for ten seconds, and is tried again', async () => {
  const clock = new FakeClock()
  const hints = new ExpiryHints(LocalState.join(`${tempDirectory('cellstore-sweeper')}/local.db`))
  const sweeper = new ExpirySweeper(hints, clock, silentLog)
  const collected: string[] = []
  const signals: AbortSignal[] = []
  sweeper.note('stuck', clock.now())
  sweeper.note('neighbour', clock.now() + 1)
  sweeper.start(async (cellId, signal) => {
    collected.push(cellId)
    if (cellId === 'stuck') {
      signals.push(signal)
      await new Promise(() => {})
    }
    hints.remove(cellId)
  })
  const pass = async (ms: number) => {
    clock.advance(ms)
    for (let turn = 0; turn < 10; turn++) await turnOfTheLoop()
  }
  await pass(1_001)
  expect(collected).toEqual(['stuck'])
  await pass(10_000)
  expect(collected).toEqual(['stuck', 'neighbour'])
  expect(signals[0]?.aborted).toBe(true)
  await pass(62_000)
  expect(collected).toEqual(['stuck', 'neighbour', 'stuck'])
  await sweeper.stop()
})
