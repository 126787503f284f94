import { expect, test } from 'vitest'
import type { RestoreResult } from '../../src/backup/versions/backup-types.ts'
import type { ProblemDocument } from '../../src/http/answers/problem-document.ts'
import { type BegunRestore, BegunRestores } from '../../src/http/routes/begun-restores.ts'
import { FakeClock } from '../support/fake-clock.ts'

const HOUR_MS = 3_600_000
const RESULT: RestoreResult = {
  version: 'v',
  kind: 'snapshot',
  timestamp: 1,
  replacedAt: null,
  sizeBytes: 1,
  durationMs: 1,
}

const clock = new FakeClock()

function begin(restores: BegunRestores, account: string, running?: Promise<RestoreResult>) {
  // As a restore that takes a while: it ends after the answer.
  const run = () => running ?? new Promise<RestoreResult>((resolve) => setImmediate(() => resolve(RESULT)))
  return restores.begin(account, 'cell', {
    run,
    explain: (error) => error as ProblemDocument,
    atOnce: Promise.resolve(),
  })
}

async function endOf(restore: BegunRestore): Promise<void> {
  while (restore.end === undefined) await new Promise((resolve) => setImmediate(resolve))
}

const isKnown = (restores: BegunRestores, { account, id }: BegunRestore) =>
  restores.find(account, 'cell', id) !== undefined

test('a restore is remembered while it runs, and for an hour after its end', async () => {
  const restores = new BegunRestores(clock)
  const { promise, resolve } = Promise.withResolvers<RestoreResult>()
  const restore = await begin(restores, 'a', promise)
  clock.advance(10 * HOUR_MS)
  expect(isKnown(restores, restore)).toBe(true)
  resolve(RESULT)
  await endOf(restore)
  clock.advance(HOUR_MS - 1)
  expect(isKnown(restores, restore)).toBe(true)
  clock.advance(1)
  expect(isKnown(restores, restore)).toBe(false)
})

test('of an account 100 are remembered: the first that ended makes room, and one that runs never does', async () => {
  const restores = new BegunRestores(clock)
  const running = await begin(restores, 'a', new Promise(() => {}))
  const ended: BegunRestore[] = []
  for (let i = 0; i < 100; i++) {
    const restore = await begin(restores, 'a')
    await endOf(restore)
    ended.push(restore)
  }
  expect([running, ...ended].map((each) => isKnown(restores, each))).toEqual([
    true,
    false,
    ...Array.from({ length: 99 }, () => true),
  ])
})

test('a 101st that would run at a time is refused, and another account has its own', async () => {
  const restores = new BegunRestores(clock)
  for (let i = 0; i < 100; i++) await begin(restores, 'a', new Promise(() => {}))
  await expect(begin(restores, 'a')).rejects.toMatchObject({ code: 'rate_limited', details: { limit: 100 } })
  await begin(restores, 'b')
})

test('of all accounts 10,000 are remembered: the first that ended makes room', async () => {
  const restores = new BegunRestores(clock)
  const first = await begin(restores, 'a')
  await endOf(first)
  for (let i = 0; i < 9_999; i++) {
    const account = `account ${i % 120}`
    await begin(restores, account, new Promise(() => {}))
  }
  expect(isKnown(restores, first)).toBe(true)
  await begin(restores, 'b')
  expect(isKnown(restores, first)).toBe(false)
})
