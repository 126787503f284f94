import fc from 'fast-check'
import { expect, test } from 'vitest'
import { definedOnly } from '../../src/base/options/option-shapes.ts'
import type { CellErrorCode } from '../../src/errors.ts'
import { isCellError } from '../../src/errors.ts'
import type { Cell } from '../../src/store/open/cell.ts'
import { openTestCell, type TestStore } from '../support/open-test-store.ts'
import { SEED } from '../support/seed.ts'

const KEYS = ['a', 'b']
const CLIENTS = 3

/**
 * Clients of one cell. Each remembers what it last saw of each key, as a client elsewhere does, and changes it on the
 * condition that this is still there.
 */
type Step =
  | { do: 'read'; client: number; key: string }
  | {
      do: 'put' | 'putNew' | 'putIfRead' | 'putIfAny' | 'keep'
      client: number
      key: string
      ttlMs: number | undefined
    }
  | { do: 'deleteIfRead' | 'delete' | 'getdel' | 'incr' | 'expire'; client: number; key: string }
  | { do: 'wait'; ms: number }
  | { do: 'reopen' }

const client = fc.nat(CLIENTS - 1)
const key = fc.constantFrom(...KEYS)
const step: fc.Arbitrary<Step> = fc.oneof(
  { weight: 3, arbitrary: fc.record({ do: fc.constant('read' as const), client, key }) },
  {
    weight: 5,
    arbitrary: fc.record({
      do: fc.constantFrom(
        'put' as const,
        'putNew' as const,
        'putIfRead' as const,
        'putIfAny' as const,
        'keep' as const,
      ),
      client,
      key,
      ttlMs: fc.constantFrom(undefined, undefined, 5, 50),
    }),
  },
  {
    weight: 3,
    arbitrary: fc.record({
      do: fc.constantFrom(
        'deleteIfRead' as const,
        'delete' as const,
        'getdel' as const,
        'incr' as const,
        'expire' as const,
      ),
      client,
      key,
    }),
  },
  { weight: 1, arbitrary: fc.record({ do: fc.constant('wait' as const), ms: fc.constantFrom(1, 5, 50) }) },
  { weight: 1, arbitrary: fc.constant({ do: 'reopen' as const }) },
)

/** What the entries are, without a database. Versions are only compared: the model has its own. */
class Model {
  readonly #entries = new Map<string, { change: number; expiresAt: number | null }>()
  readonly #seen = new Map<string, number | null>()
  #changes = 0
  now = 0

  live(key: string): number | null {
    const entry = this.#entries.get(key)
    const isLive = entry !== undefined && (entry.expiresAt === null || entry.expiresAt > this.now)
    return isLive ? entry.change : null
  }

  read(client: number, key: string): void {
    this.#seen.set(`${client} ${key}`, this.live(key))
  }

  /** Whether what the client has read is what is there. */
  isCurrent(client: number, key: string): boolean {
    return (this.#seen.get(`${client} ${key}`) ?? null) === this.live(key)
  }

  change(key: string, ttlMs: number | undefined, keepsTtl: boolean): void {
    const kept = keepsTtl && this.live(key) !== null ? this.#entries.get(key)?.expiresAt : undefined
    const expiresAt = kept !== undefined ? kept : ttlMs === undefined ? null : this.now + ttlMs
    this.#entries.set(key, { change: ++this.#changes, expiresAt })
  }

  remove(key: string): void {
    this.#entries.delete(key)
  }
}

/** The real cell, with what each client remembers of it. */
class Clients {
  readonly #test: TestStore
  readonly #id: string
  cell: Cell
  readonly #seen = new Map<string, string | null>()

  constructor(test: TestStore & { cell: Cell }) {
    this.#test = test
    this.#id = test.store.createCell().id
    this.cell = test.store.openCell(this.#id)
  }

  async reopen(): Promise<void> {
    this.cell = (await this.#test.reopen()).openCell(this.#id)
  }

  seen(client: number, key: string): string | null {
    return this.#seen.get(`${client} ${key}`) ?? null
  }

  read(client: number, key: string): void {
    this.#seen.set(`${client} ${key}`, this.cell.kv.entry(key)?.version ?? null)
  }
}

function outcome(run: () => unknown): 'done' | CellErrorCode {
  try {
    run()
    return 'done'
  } catch (error) {
    if (isCellError(error)) return error.code
    throw error
  }
}

const expected = (isMet: boolean) => (isMet ? 'done' : 'precondition_failed')

function apply(step: Exclude<Step, { do: 'wait' | 'reopen' }>, model: Model, clients: Clients): void {
  const { kv } = clients.cell
  const { client, key } = step
  const isLive = model.live(key) !== null
  const isCurrent = model.isCurrent(client, key)
  const read = clients.seen(client, key)
  switch (step.do) {
    case 'read':
      clients.read(client, key)
      model.read(client, key)
      return
    case 'put':
    case 'keep': {
      const keepTtl = step.do === 'keep'
      const ttlMs = keepTtl ? undefined : step.ttlMs
      expect(kv.put(key, '0', definedOnly({ ttlMs, keepTtl })).created).toBe(!isLive)
      model.change(key, ttlMs, keepTtl)
      return
    }
    case 'putNew':
    case 'putIfAny':
    case 'putIfRead': {
      const ifVersion = step.do === 'putNew' ? null : step.do === 'putIfAny' ? '*' : read
      const isMet = step.do === 'putNew' ? !isLive : step.do === 'putIfAny' ? isLive : isCurrent
      expect(outcome(() => kv.put(key, '0', definedOnly({ ttlMs: step.ttlMs, ifVersion })))).toBe(
        expected(isMet),
      )
      if (isMet) model.change(key, step.ttlMs, false)
      return
    }
    case 'deleteIfRead':
      if (read === null) return
      expect(outcome(() => kv.delete(key, { ifVersion: read }))).toBe(expected(isCurrent))
      if (isCurrent) model.remove(key)
      return
    case 'delete':
      expect(kv.delete(key)).toBe(isLive)
      model.remove(key)
      return
    case 'getdel':
      expect(kv.getdel(key) !== undefined).toBe(isLive)
      model.remove(key)
      return
    case 'incr':
      kv.incr(key)
      model.change(key, undefined, true)
      return
    case 'expire':
      expect(kv.expire(key, 1).updated).toBe(isLive)
      if (isLive) model.change(key, 1_000, false)
  }
}

test('a condition holds exactly if nothing has changed since the client read, for any sequence of changes', async () => {
  const opened = await openTestCell({ durability: 'relaxed' })
  const sequence = fc.array(step, { minLength: 10, maxLength: 60 })
  await fc.assert(
    fc.asyncProperty(sequence, async (steps) => {
      const model = new Model()
      const clients = new Clients(opened)
      for (const each of steps) {
        if (each.do === 'wait') {
          model.now += each.ms
          opened.clock.step(each.ms)
        } else if (each.do === 'reopen') await clients.reopen()
        else apply(each, model, clients)
        for (const name of KEYS) {
          expect(clients.cell.kv.get(name) !== undefined).toBe(model.live(name) !== null)
        }
      }
    }),
    { seed: SEED, numRuns: 60 },
  )
})
