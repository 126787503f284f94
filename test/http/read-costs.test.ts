import { Socket } from 'node:net'
import { beforeEach, expect, test } from 'vitest'
import {
  COSTLY_MS,
  COSTS,
  FULL_MS,
  PIPELINED_COST,
  PIPELINED_MAX,
  ReadCosts,
} from '../../src/http/read-costs.ts'
import { FakeClock } from '../support/fake-clock.ts'

let clock: FakeClock
let costs: ReadCosts
let told: { connections: Socket[]; current: unknown }[]

beforeEach(() => {
  clock = new FakeClock()
  costs = new ReadCosts(clock)
  told = []
  costs.onCostly((connections, current) => told.push({ connections: [...connections], current }))
})

function connection(account?: string): Socket {
  const socket = new Socket()
  costs.add(socket)
  if (account !== undefined) costs.identify(socket, account)
  return socket
}

test('a sender is costly for a while when it has cost too much, and others are not', () => {
  const [first, second] = [connection('a'), connection('a')]
  const other = connection('b')
  costs.charge(first, COSTS.burst)
  expect(costs.isCostly('a')).toBe(false)
  costs.charge(second, 1)
  expect(costs.isCostly('a')).toBe(true)
  expect(costs.isCostly(costs.senderOf(other))).toBe(false)
  clock.advance(COSTLY_MS - 1)
  expect(costs.isCostly('a')).toBe(true)
  clock.advance(1)
  expect(costs.isCostly('a')).toBe(false)
})

test('the connections of a sender are told once when it becomes costly, without those that are closed or of another account', async () => {
  const [first, second, third, closed] = [connection('a'), connection('a'), connection('a'), connection('a')]
  costs.identify(third, 'b')
  await new Promise((resolve) => closed.once('close', resolve).destroy())
  for (let i = 0; i < 3; i++) costs.charge(first, COSTS.burst)
  expect(told).toEqual([
    { connections: [first, second], current: first },
    { connections: [], current: first },
  ])
})

test('a connection of a sender that is costly already is told when the sender is known', () => {
  const first = connection('a')
  costs.charge(first, 2 * COSTS.burst)
  const later = connection()
  expect(told).toHaveLength(1)
  costs.identify(later, 'a')
  expect(told[1]).toEqual({ connections: [later], current: later })
})

test('what costs little over time never makes a sender costly', () => {
  const socket = connection('a')
  for (let second = 0; second < 100; second++) {
    for (let part = 0; part < 100; part++) {
      costs.charge(socket, COSTS.perSecond / 100)
      clock.advance(10)
    }
  }
  expect(costs.isCostly('a')).toBe(false)
})

test('while many requests of a sender wait, its connections that have such go on when one begins, and one now and then', () => {
  const socket = connection('a')
  const cheap = connection('a')
  costs.charge(cheap, 1)
  let wentOn = 0
  const goOn = () => ++wentOn > 0
  for (let i = 1; i < PIPELINED_MAX; i++) costs.pipelined('a', socket)
  expect(costs.mayParse(socket, goOn)).toBe(true)
  costs.pipelined('a', socket)
  for (let i = 0; i < 4; i++) expect(costs.mayParse(socket, goOn)).toBe(false)
  expect(costs.mayParse(cheap, goOn)).toBe(true)
  costs.begun('a', 1)
  expect(wentOn).toBe(1)
  costs.begun('a', 1)
  expect(wentOn).toBe(3)
  costs.pipelined('a', socket)
  costs.pipelined('a', socket)
  clock.advance(FULL_MS)
  expect(wentOn).toBe(4)
  expect(clock.nextTimerMs).toBeUndefined()
})

test('requests that wait are charged', () => {
  const socket = connection('a')
  for (let i = 0; i <= COSTS.burst / PIPELINED_COST; i++) costs.pipelined('a', socket)
  expect(costs.isCostly('a')).toBe(true)
})
