import http from 'node:http'
import { expect, test } from 'vitest'
import { STREAM_BOUNDS } from '../../../src/http/hrana/hrana-streams.ts'
import { Bench } from '../../support/http/bench.ts'
import { sendOverSocket, viaFetch } from '../../support/http/transports.ts'

const ACCOUNTS = 10
const STREAMS = STREAM_BOUNDS.perAccount
const LANES = 32
/** Of each account nearly as many characters as it may keep, and of all of them as many as a node keeps. */
const TEXT_LENGTH = 6_500

const bench = Bench.perTest(viaFetch)

test(`${ACCOUNTS} accounts have ${STREAMS} streams each, open at once over HTTP, and each goes on with its text; no request of a neighbour fails meanwhile (invariant 13)`, async () => {
  const { port } = await bench.listen()
  const agent = new http.Agent({ keepAlive: true, maxSockets: LANES + 1 })
  const send = async (method: string, path: string, key: string, body: unknown) => {
    const headers = { 'x-api-key': key, 'content-type': 'application/json' }
    return sendOverSocket({ method, path, headers, body: JSON.stringify(body) }, { port, agent })
  }
  const accounts = Array.from({ length: ACCOUNTS }, () => {
    const accountId = bench.store.accounts.create().id
    const path = `/v1/databases/${bench.store.createCell({ accountId }).id}/v2/pipeline`
    return { path, key: bench.store.apiKeys.create(accountId).key }
  })
  const streams = accounts.flatMap((account, a) =>
    Array.from({ length: STREAMS }, (_, n) => ({ ...account, text: `${a}:${n}`, baton: '' })),
  )
  // On the server's clock no stream grows old, however slow the machine is.
  const start = bench.clock.monotonic()
  const standStill = () => bench.clock.pass(start - bench.clock.monotonic())
  const inLanes = async (step: (stream: (typeof streams)[number]) => Promise<void>) => {
    const left = streams.values()
    await Promise.all(
      Array.from({ length: LANES }, async () => {
        for (const stream of left) {
          standStill()
          await step(stream)
        }
      }),
    )
  }

  let isOver = false
  const neighbours = new Map<number, number>()
  const serving = (async () => {
    while (!isOver) {
      const path = `/v1/databases/${bench.cell}/kv/k`
      const { status } = await send('PUT', path, bench.key, { value: 'v' })
      neighbours.set(status, (neighbours.get(status) ?? 0) + 1)
    }
  })()
  await inLanes(async (stream) => {
    const sql = `SELECT '${stream.text}' -- ${'x'.repeat(TEXT_LENGTH - 30)}`
    const requests = [{ type: 'store_sql', sql_id: 1, sql }]
    const { status, text } = await send('POST', stream.path, stream.key, { requests })
    if (status !== 200) throw new Error(text)
    stream.baton = JSON.parse(text).baton
  })
  // All have been opened before the first goes on.
  let goOn = 0
  await inLanes(async ({ path, key, text: own, baton }) => {
    const requests = [{ type: 'execute', stmt: { sql_id: 1 } }, { type: 'close' }]
    const { status, text } = await send('POST', path, key, { baton, requests })
    if (status !== 200) throw new Error(text)
    expect(text).toContain(`"value":"${own}"`)
    goOn++
  })
  isOver = true
  await serving
  agent.destroy()
  expect(goOn).toBe(ACCOUNTS * STREAMS)
  expect([...neighbours.keys()]).toEqual([200])
  console.info(`${goOn} streams open at once, ${neighbours.get(200)} requests of a neighbour`)
})
