import { expect, test } from 'vitest'
import { CellError } from '../../../src/errors.ts'
import { HranaStreams, STREAM_BOUNDS, type StreamOwner } from '../../../src/http/hrana/hrana-streams.ts'
import { FakeClock } from '../../support/fake-clock.ts'

/** What a node remembers of streams is bounded, however they end. */

const OWNER: StreamOwner = { accountId: 'a', cellId: 'c', access: 'write' }
const FAILED = new CellError('transaction_timeout', 'The transaction was rolled back.')

function opened() {
  const clock = new FakeClock()
  const forgotten: string[] = []
  const streams = new HranaStreams(clock, ({ id }) => forgotten.push(id))
  const open = (characters = 0, isOpen = false, accountId = OWNER.accountId) => {
    const texts: [number, string][] = characters === 0 ? [] : [[1, 'x'.repeat(characters)]]
    const stream = streams.make({ ...OWNER, accountId })
    return streams.keep(stream, { isClosed: false, isOpen, texts }) as string
  }
  const fail = (baton: string) => streams.end(streams.take(baton, OWNER), FAILED)
  /** @returns the stream, or the error's code */
  const use = (baton: string, accountId = OWNER.accountId) => {
    try {
      return streams.take(baton, { ...OWNER, accountId })
    } catch (error) {
      return (error as CellError).code
    }
  }
  return { clock, forgotten, open, fail, use }
}

test('a stream that ended with an error is told why for ten seconds, and is then forgotten', () => {
  const { clock, open, fail, use } = opened()
  const baton = open()
  fail(baton)
  clock.advance(9_000)
  expect([use(baton), use(baton)]).toEqual(['transaction_timeout', 'transaction_timeout'])
  clock.advance(2_000)
  expect(use(baton)).toBe('stream_expired')
})

test('streams that ended with an error take no room of others: neither of their number, nor of their texts', () => {
  const { open, fail, use } = opened()
  for (let i = 0; i < STREAM_BOUNDS.perAccount + 1; i++) fail(open())
  const next = open(100)
  for (let i = 0; i < 20; i++) fail(open(500_000))
  expect(use(next)).toMatchObject({ texts: [[1, 'x'.repeat(100)]] })
})

test('10 accounts have 1,000 open streams each; one more of one of them makes room for itself alone', () => {
  const { open, use } = opened()
  const accounts = Array.from({ length: 10 }, (_, i) => `account ${i}`)
  const batons = accounts.map((accountId) =>
    Array.from({ length: STREAM_BOUNDS.perAccount }, () => open(0, false, accountId)),
  )
  const [[oldest, ...own], ...others] = batons as [[string, ...string[]], ...string[][]]
  const more = open(0, false, 'account 0')
  expect(use(oldest, 'account 0')).toBe('stream_expired')
  for (const baton of [...own, more]) expect(use(baton, 'account 0')).toMatchObject({ isHeld: false })
  for (const [i, all] of others.entries())
    for (const baton of all) expect(use(baton, `account ${i + 1}`)).toMatchObject({ isHeld: false })
})

test('texts of streams with a transaction count too: beyond the bound the oldest ends, with its transaction', () => {
  const { forgotten, open, use } = opened()
  const without = open(0, true)
  const oldest = open(500_000, true)
  const others = Array.from({ length: 16 }, () => open(500_000, true))
  expect([use(oldest), forgotten.length]).toEqual(['stream_expired', 1])
  for (const baton of [without, ...others]) expect(use(baton)).toMatchObject({ isHeld: true })
})

test('texts of all accounts together are bounded: beyond that the oldest stream of the account that keeps most ends, and nobody else’s', () => {
  const { forgotten, open, use } = opened()
  const small = open(100, true, 'small')
  const accounts = Array.from({ length: STREAM_BOUNDS.textsTotal / 8_000_000 + 1 }, (_, i) => `account ${i}`)
  const batons = accounts.map((accountId) => Array.from({ length: 16 }, () => open(500_000, true, accountId)))
  const kept = accounts.flatMap((accountId, i) =>
    (batons[i] as string[]).filter((baton) => use(baton, accountId) !== 'stream_expired'),
  )
  expect(kept.length * 500_000).toBeLessThanOrEqual(STREAM_BOUNDS.textsTotal)
  expect(kept.length * 500_000).toBeGreaterThan(STREAM_BOUNDS.textsTotal - 1_000_000)
  expect(kept.length + forgotten.length).toBe(accounts.length * 16)
  expect(use(small, 'small')).toMatchObject({ isHeld: true })
})
