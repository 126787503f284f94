import { expect, test } from 'vitest'
import { definedOnly } from '../../src/base/options/option-shapes.ts'
import { isCellError } from '../../src/errors.ts'
import type { Kv } from '../../src/kv/kv.ts'
import { openTestCell, type TestStore } from '../support/open-test-store.ts'
import type { Random } from '../support/random.ts'
import { seededRandom } from '../support/seed.ts'

/** What KV is meant to be, without a database: the rules in a few lines. */
class Model {
  entries: Map<string, { value: string; expiresAt: number | null }>
  readonly now: () => number

  constructor(now: () => number, entries: Model['entries'] = new Map()) {
    this.now = now
    this.entries = entries
  }

  copy(): Model['entries'] {
    return new Map([...this.entries].map(([key, entry]) => [key, { ...entry }]))
  }

  live(key: string) {
    const entry = this.entries.get(key)
    return entry !== undefined && (entry.expiresAt === null || entry.expiresAt > this.now())
      ? entry
      : undefined
  }

  put(key: string, value: string, ttlMs: number | undefined, keepTtl: boolean): boolean {
    const before = this.live(key)
    const kept = keepTtl ? (before?.expiresAt ?? null) : ttlMs === undefined ? null : this.now() + ttlMs
    this.entries.set(key, { value, expiresAt: kept })
    return before === undefined
  }

  delete(key: string): boolean {
    const was = this.live(key) !== undefined
    this.entries.delete(key)
    return was
  }

  incr(key: string, delta: bigint, ttlMs: number | undefined): string {
    const before = this.live(key)
    if (before !== undefined && !/^(0|-?[1-9]\d*)$/.test(before.value)) return 'not_an_integer'
    const sum = BigInt(before?.value ?? 0) + delta
    if (BigInt.asIntN(64, sum) !== sum) return 'integer_overflow'
    const expiresAt =
      before === undefined ? (ttlMs === undefined ? null : this.now() + ttlMs) : before.expiresAt
    this.entries.set(key, { value: String(sum), expiresAt })
    return String(sum)
  }

  ttl(key: string): number | null {
    const entry = this.live(key)
    if (entry === undefined) return null
    return entry.expiresAt === null ? -1 : Math.ceil((entry.expiresAt - this.now()) / 1_000)
  }

  expire(key: string, ttlSeconds: number | null): boolean {
    const entry = this.live(key)
    if (entry !== undefined) entry.expiresAt = ttlSeconds === null ? null : this.now() + ttlSeconds * 1_000
    return entry !== undefined
  }

  list(): [string, string, number | null][] {
    return [...this.entries.keys()]
      .filter((key) => this.live(key))
      .sort((a, b) => Buffer.compare(Buffer.from(a), Buffer.from(b)))
      .map((key) => [key, this.entries.get(key)?.value ?? '', this.entries.get(key)?.expiresAt ?? null])
  }
}

const KEYS = ['a', 'b', 'aa', 'é', '\u{10000}', '\ue000', 'counter', 'x:1', 'x:2', '%']
const VALUES = ['', '0', '41', '-7', 'text', '9223372036854775806', '-9223372036854775808', '007', 'é\0']
const DELTAS = [1n, -1n, 5n, 2n ** 62n, -(2n ** 62n)]

function listed(kv: Kv): [string, string, number | null][] {
  return kv.list({ limit: 1_000 }).entries.map(({ key, value, expiresAt }) => [key, value ?? '', expiresAt])
}

/** One random operation on both; what they answer must be the same. */
function step(random: Random, kv: Kv, model: Model): void {
  const key = random.pick(KEYS)
  const ttlMs = random.chance(0.5) ? random.pick([1, 500, 1_000, 1_001, 60_000]) : undefined
  switch (random.below(11)) {
    case 0:
    case 1: {
      const value = random.pick(VALUES)
      expect(kv.put(key, value, definedOnly({ ttlMs })).created).toBe(model.put(key, value, ttlMs, false))
      return
    }
    case 2: {
      const value = random.pick(VALUES)
      expect(kv.put(key, value, { keepTtl: true }).created).toBe(model.put(key, value, undefined, true))
      return
    }
    case 3:
      expect(kv.delete(key)).toBe(model.delete(key))
      return
    case 4:
    case 5: {
      const delta = random.pick(DELTAS)
      expect(outcome(() => kv.incr(key, delta, definedOnly({ ttlMs })))).toBe(model.incr(key, delta, ttlMs))
      return
    }
    case 6:
      expect(kv.ttl(KEYS)).toEqual(KEYS.map((each) => model.ttl(each)))
      return
    case 7: {
      const seconds = random.chance(0.3) ? null : 1 + random.below(100)
      expect(kv.expire(key, seconds).updated).toBe(model.expire(key, seconds))
      return
    }
    case 8: {
      const entries = Array.from({ length: random.below(5) }, () => ({
        key: random.pick(KEYS),
        value: random.pick(VALUES),
        ttlMs: random.chance(0.5) ? 1_000 : undefined,
      }))
      kv.put(entries.map(definedOnly))
      for (const each of entries) model.put(each.key, each.value, each.ttlMs, false)
      return
    }
    case 9: {
      const keys = Array.from({ length: random.below(5) }, () => random.pick(KEYS))
      expect(kv.delete(keys)).toEqual(keys.map((each) => model.delete(each)))
      return
    }
    case 10:
      expect(kv.entry(KEYS).map((entry) => entry?.value)).toEqual(KEYS.map((each) => model.live(each)?.value))
  }
}

function outcome(run: () => number | bigint): string {
  try {
    return String(run())
  } catch (error) {
    if (isCellError(error)) return error.code
    throw error
  }
}

/** Some operations in a transaction of one to three levels, which may end in an error. */
function transact(
  random: Random,
  kv: Kv,
  model: Model,
  transaction: (work: () => void) => void,
  depth = 0,
): void {
  const before = model.copy()
  const fails = random.chance(0.4)
  try {
    transaction(() => {
      for (let i = random.below(6); i > 0; i--) {
        if (depth < 2 && random.chance(0.25)) transact(random, kv, model, transaction, depth + 1)
        else step(random, kv, model)
      }
      if (fails) throw new Error('rolled back')
    })
    expect(fails).toBe(false)
  } catch (error) {
    if (!fails || !(error instanceof Error) || error.message !== 'rolled back') throw error
    model.entries = before
  }
}

/** What has expired may have been collected or not: it must be gone from both before time comes a second time. */
function stepBack(random: Random, test: TestStore, kv: Kv, model: Model): void {
  for (const key of KEYS.filter((each) => model.live(each) === undefined)) {
    kv.put(key, 'collected')
    kv.delete(key)
    model.entries.delete(key)
  }
  test.clock.step(-random.below(5_000))
}

async function compare(random: Random, test: TestStore, id: string, steps: number): Promise<void> {
  const model = new Model(() => test.clock.now())
  let cell = test.store.openCell(id)
  for (let i = 0; i < steps; i++) {
    if (random.chance(0.1)) transact(random, cell.kv, model, (work) => cell.transaction(work))
    else step(random, cell.kv, model)
    if (random.chance(0.2)) test.clock.advance(random.pick([1, 499, 500, 1_000, 30_000]))
    if (random.chance(0.02)) stepBack(random, test, cell.kv, model)
    if (random.chance(0.01)) cell = (await test.reopen()).openCell(id)
    if (random.chance(0.02)) await new Promise((resolve) => setImmediate(resolve))
    expect(listed(cell.kv)).toEqual(model.list())
  }
}

test('any sequence of operations, rollbacks, restarts and clock steps leaves what the model says', async () => {
  const random = seededRandom()
  for (let round = 0; round < 6; round++) {
    const test = await openTestCell({ durability: 'relaxed' })
    await compare(random, test, test.cell.id, 500)
  }
})
