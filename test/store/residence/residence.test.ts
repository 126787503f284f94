import { expect, test } from 'vitest'
import { turnOfTheLoop } from '../../../src/base/clock.ts'
import { newCellId } from '../../../src/base/files/store-paths.ts'
import { firstAssignment, withRange } from '../../../src/catalog/assignment/assignment.ts'
import { Residence } from '../../../src/store/residence/residence.ts'
import { FakeClock } from '../../support/fake-clock.ts'
import { ScriptedOwnership } from '../../support/scripted-cluster.ts'

const residence = () =>
  new Residence(new ScriptedOwnership('A', '', firstAssignment('A', ''), new FakeClock()))
const cellIn = (range: number) => withRange(newCellId(), range)

test('A release waits for the requests of its ranges that run, and for no others', async () => {
  const here = residence()
  const [one, another] = [here.enter(cellIn(5)), here.enter(cellIn(5))]
  here.enter(cellIn(6))
  let isReleased = false
  const released = here.release([{ lo: 5, hi: 5 }]).then(() => {
    isReleased = true
  })
  one()
  one()
  await turnOfTheLoop()
  expect(isReleased).toBe(false)
  another()
  await released
  expect(here.isHere(cellIn(5))).toBe(false)
  expect(here.isHere(cellIn(6))).toBe(true)
})

test('A release that is given up ends with the reason of its signal, and its ranges come back in parts', async () => {
  const here = residence()
  here.enter(cellIn(5))
  const abort = new AbortController()
  const released = here.release([{ lo: 0, hi: 9 }], abort.signal)
  abort.abort(new Error('too late'))
  await expect(released).rejects.toThrow('too late')
  here.settle([{ lo: 3, hi: 5 }])
  expect([2, 3, 5, 6].map((range) => here.isHere(cellIn(range)))).toEqual([false, true, true, false])
})
