import fs from 'node:fs'
import { expect, test } from 'vitest'
import { type ServedNode, Workplace } from '../../support/cli/workplace.ts'

const ACCOUNTS = 10
/** As many as an account may have. */
const STREAMS = 1_000
const LANES = 10
/** Together 80 million characters: more than a node keeps. */
const TEXT = `SELECT '${'x'.repeat(7_990)}'`
const NODE_MB_MAX = 600

interface Attacker {
  cell: string
  key: string
}

async function newAttacker(place: Workplace, node: ServedNode): Promise<Attacker> {
  const { key } = await place.json<{ key: string }>('keys', 'create', '--new-account')
  const { body } = await node.request('POST', '/v1/databases', {}, key)
  return { cell: String(body['id']), key }
}

/** Peak resident memory, in MB. */
function peakMb(pid: number): number {
  return Number(/^VmHWM:\s+(\d+)/m.exec(fs.readFileSync(`/proc/${pid}/status`, 'utf8'))?.[1]) / 1_000
}

async function inLanes(count: number, step: (i: number) => Promise<unknown>): Promise<void> {
  let next = 0
  const lane = async () => {
    while (next < count) await step(next++)
  }
  await Promise.all(Array.from({ length: LANES }, lane))
}

test(`${ACCOUNTS} accounts open ${STREAMS} streams each, with texts, and one of them as many again: each request is answered, or told that its stream made room; a neighbour is served, and the node’s memory is bounded (invariant 13)`, async () => {
  const place = new Workplace()
  const node = await place.serve('--workers', '1')
  const attackers = await Promise.all(Array.from({ length: ACCOUNTS }, () => newAttacker(place, node)))
  const neighbour = String((await node.request('POST', '/v1/databases')).body['id'])
  const send = ({ cell, key }: Attacker, baton: unknown, requests: object[]) =>
    node.request('POST', `/v1/databases/${cell}/v2/pipeline`, { baton, requests }, key)
  let isOver = false
  const served: number[] = []
  const serving = (async () => {
    while (!isOver)
      served.push((await node.request('PUT', `/v1/databases/${neighbour}/kv/k`, { value: 'v' })).status)
  })()

  const store = [{ type: 'store_sql', sql_id: 1, sql: TEXT }]
  const open = async (attacker: Attacker) => {
    const batons: unknown[] = []
    await inLanes(STREAMS, async () => {
      const { status, body } = await send(attacker, null, store)
      expect(status).toBe(200)
      batons.push(body['baton'])
    })
    return batons
  }
  const batons = await Promise.all(attackers.map(open))
  const [first, ...others] = attackers as [Attacker, ...Attacker[]]
  const again = await open(first)

  const answers: Record<string, number> = {}
  const use = async (attacker: Attacker, all: unknown[]) => {
    await inLanes(all.length, async (i) => {
      const execute = { type: 'execute', stmt: { sql_id: 1, want_rows: false } }
      const { status, body } = await send(attacker, all[i], [execute, { type: 'close' }])
      const name = `${status} ${body['code'] ?? body['message'] ?? ''}`.trim()
      answers[name] = (answers[name] ?? 0) + 1
    })
  }
  const replaced = (batons[0] as unknown[]).slice(0, 10)
  for (const baton of replaced) {
    const { status, body } = await send(first, baton, [])
    expect([status, body['code']]).toEqual([409, 'STREAM_EXPIRED'])
    expect(body['message']).toContain('has made room for newer ones')
  }
  await use(first, again)
  await Promise.all(others.map((attacker, i) => use(attacker, batons[i + 1] as unknown[])))
  isOver = true
  await serving
  expect(new Set(served)).toEqual(new Set([200]))
  for (const answer of Object.keys(answers)) expect(['200', '409 STREAM_EXPIRED']).toContain(answer)
  expect(peakMb(node.pid)).toBeLessThan(NODE_MB_MAX)
  console.info(
    `${JSON.stringify(answers)}, ${served.length} requests of a neighbour, ${Math.round(peakMb(node.pid))} MB`,
  )
  expect(await node.stop()).toEqual([0, null])
})
