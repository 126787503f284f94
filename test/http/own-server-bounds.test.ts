import { beforeEach, describe, expect, test } from 'vitest'
import { createHandler } from '../../src/http/fetch/fetch-handler.ts'
import { DEFAULT_MEMORY_LIMITS } from '../../src/http/quotas/memory-budgets.ts'
import type { CellService } from '../../src/service/cell-service.ts'
import { Bench } from '../support/http/bench.ts'
import { viaFetch } from '../support/http/transports.ts'
import { entryAnswer } from '../support/request-bounds.ts'

/** Answers that nobody takes are bounded by the fetch handler too. An account may leave 20 MB untaken. */

const bench = Bench.perTest(viaFetch)
let begun: number
let valueBytes: number

beforeEach(() => {
  begun = 0
  valueBytes = 8_000_000
})

function options() {
  const execute = async () => {
    begun++
    await new Promise((resolve) => setImmediate(resolve))
    return entryAnswer(valueBytes)
  }
  const memory = { ...DEFAULT_MEMORY_LIMITS, unsentPerAccount: 20_000_000 }
  return { service: { execute } as unknown as CellService, limits: { memory } }
}

describe('the fetch handler', () => {
  const asked = () =>
    new Request(`http://x${bench.fill('/v1/databases/{cell}/kv/k')}`, { headers: { 'x-api-key': bench.key } })

  test('answers nothing more to an account that leaves its answers untaken, until it takes them', async () => {
    const handler = createHandler(bench.store, options())
    const untaken = [await handler(asked()), await handler(asked())]
    // A third one finds no room once it is ready, and those after it are refused before.
    const broken = await handler(asked())
    await expect(broken.text()).rejects.toThrow('untaken')
    valueBytes = 8_000_000
    expect(JSON.parse(await (untaken[0] as Response).text()).value.length).toBe(valueBytes)
    await untaken[1]?.body?.cancel()
    for (let i = 0; i < 5; i++)
      expect((await (await handler(asked())).text()).length).toBeGreaterThan(valueBytes)
  })

  test('refuses requests before their work once the account’s room is used up', async () => {
    valueBytes = 9_995_000
    const handler = createHandler(bench.store, options())
    const untaken = [await handler(asked()), await handler(asked())]
    const before = begun
    const refused = await handler(asked())
    expect([refused.status, refused.headers.get('retry-after'), begun]).toEqual([429, '1', before])
    await Promise.all(untaken.map((response) => response.body?.cancel()))
    expect((await handler(asked())).status).toBe(200)
  })

  test('gives short answers as a whole, and takes the length of long ones with it', async () => {
    const handler = createHandler(bench.store, options())
    valueBytes = 10
    expect((await handler(asked())).headers.get('content-length')).toBeNull()
    valueBytes = 100_000
    const long = await handler(asked())
    expect(Number(long.headers.get('content-length'))).toBe((await long.arrayBuffer()).byteLength)
  })
})
