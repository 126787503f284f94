import { expect, onTestFinished, test } from 'vitest'
import { type ServedNode, Workplace } from '../../support/cli/workplace.ts'
import { countOf } from '../../support/counts.ts'
import { BusyConnection } from '../../support/http/busy-connection.ts'
import { seededRandom } from '../../support/seed.ts'

const ROUNDS = countOf('CELLSTORE_REVOCATIONS')
const CONNECTIONS = 32

/** How far a connection's next request is when the key is revoked. */
const STAGES = ['between two requests', 'within the head', 'within the body', 'under way'] as const

/** Ways to leave a name behind: in the KV entries, in a table, and among the keys. */
const KINDS = 16

function requestOf(kind: number, name: string, cell: string, key: string): { head: string; body: string } {
  const insert = { sql: 'INSERT INTO t VALUES (?)', params: [name] }
  const put = { kv: 'put', key: name, value: 'v' }
  if (kind === 0) return written('POST', '/v1/api-keys', { name }, key)
  const path = `/v1/databases/${cell}`
  if (kind < 6) return written('PUT', `${path}/kv/${name}`, { value: 'v' }, key)
  if (kind < 11) return written('POST', `${path}/sql`, insert, key)
  return written('POST', `${path}/batch`, { operations: [put, { sql: 'SELECT 1' }] }, key)
}

function written(method: string, path: string, content: unknown, key: string) {
  const body = JSON.stringify(content)
  const lines = [
    `${method} ${path} HTTP/1.1`,
    'Host: x',
    `x-api-key: ${key}`,
    'Content-Type: application/json',
  ]
  return { head: [...lines, `Content-Length: ${body.length}`, '', ''].join('\r\n'), body }
}

/** Removes what it finds. */
async function takeNames(node: ServedNode, cell: string): Promise<string[]> {
  const sql = async (statement: string) =>
    (await node.request('POST', `/v1/databases/${cell}/sql`, { sql: statement })).body['rows'] as {
      name: string
    }[]
  const entries = await sql('SELECT key AS name FROM cell_kv')
  const rows = await sql('SELECT name FROM t')
  await sql('DELETE FROM t')
  await node.request('POST', `/v1/databases/${cell}/kv/ops/delete`, { keys: entries.map(({ name }) => name) })
  const keys = (await node.request('GET', '/v1/api-keys')).body as unknown as { id: string; name: string }[]
  const made = keys.filter(({ name }) => /^c\d+-\d+$/.test(name))
  for (const { id } of made) await node.request('DELETE', `/v1/api-keys/${id}`)
  return [...entries, ...rows, ...made].map(({ name }) => name).sort()
}

test(
  `after ${ROUNDS} revocations under ${CONNECTIONS} busy connections, at every stage of a request, nothing that a revoked key asked for has happened`,
  async () => {
    const random = seededRandom()
    const node = await new Workplace().serve('--workers', '1', '--rate', '1000000')
    const port = Number(new URL(node.address).port)
    const cell = String((await node.request('POST', '/v1/databases')).body['id'])
    const counts = { done: 0, refused: 0 }

    const round = async () => {
      const made = (await node.request('POST', '/v1/api-keys', { name: 'busy' })).body
      const connections = Array.from({ length: CONNECTIONS }, () => new BusyConnection(port))
      onTestFinished(() => connections.forEach((each) => void each.close()))
      const done = new Set<string>()
      let revoked = false
      let paused = 0
      const { promise: allPaused, resolve: nowAllPaused } = Promise.withResolvers<void>()
      const { promise: revocation, resolve: nowRevoked } = Promise.withResolvers<void>()
      const untilRevoked = () => {
        if (++paused === CONNECTIONS) nowAllPaused()
        return revocation
      }

      const busy = async (connection: BusyConnection, index: number) => {
        let sent = 0
        const next = () => {
          const name = `c${index}-${sent++}`
          return { name, ...requestOf(random.below(KINDS), name, cell, String(made['key'])) }
        }
        const note = (name: string, status: number, mayBeRefused: boolean) => {
          if (status < 300) done.add(name)
          else expect([status, mayBeRefused]).toEqual([401, true])
          counts[status < 300 ? 'done' : 'refused']++
        }
        for (let left = random.below(6); left > 0; left--) {
          const { name, head, body } = next()
          note(name, (await connection.ask(head + body)).status, false)
        }
        const stage = STAGES[index % STAGES.length]
        if (stage === 'under way') {
          void untilRevoked()
          for (let status = 200; status < 300; ) {
            const { name, head, body } = next()
            status = (await connection.ask(head + body)).status
            note(name, status, true)
          }
        } else {
          const { name, head, body } = next()
          const within =
            stage === 'within the head'
              ? 1 + random.below(head.length - 1)
              : head.length + random.below(body.length)
          const pauseAt = stage === 'between two requests' ? 0 : within
          const { status } = await connection.ask(head + body, pauseAt, untilRevoked)
          expect([stage, revoked, status]).toEqual([stage, true, 401])
          note(name, status, true)
        }
        const { head, body } = next()
        expect((await connection.ask(head + body)).status).toBe(401)
      }

      const running = Promise.all(connections.map(busy))
      await Promise.race([allPaused, running])
      expect((await node.request('DELETE', `/v1/api-keys/${String(made['id'])}`)).status).toBe(200)
      revoked = true
      nowRevoked()
      await running
      for (const each of connections) each.close()
      expect(await takeNames(node, cell)).toEqual([...done].sort())
    }

    await node.request('POST', `/v1/databases/${cell}/sql`, { sql: 'CREATE TABLE t (name TEXT)' })
    for (let left = ROUNDS; left > 0; left--) await round()
    console.info(`${ROUNDS} revocations: ${counts.done} requests done, ${counts.refused} refused`)
  },
  60_000 + ROUNDS * 5_000,
)
