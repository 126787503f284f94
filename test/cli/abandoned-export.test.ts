import { expect, test } from 'vitest'
import { Workplace } from '../support/cli/workplace.ts'

/** Of the cell: its copy takes longer than the client waits. */
const MEGABYTES = 24

test('a client that goes away during its export is nobody’s fault: the log has no error', async () => {
  const node = await new Workplace().serve('--workers', '1')
  const { body } = await node.request('POST', '/v1/databases')
  const cell = `/v1/databases/${body['id']}`
  await node.request('POST', `${cell}/sql`, { sql: 'CREATE TABLE t (b)' })
  for (let part = 0; part < MEGABYTES; part++)
    await node.request('POST', `${cell}/sql`, { sql: 'INSERT INTO t VALUES (randomblob(1000000))' })
  for (const ms of [1, 5, 10, 20, 40]) {
    const away = AbortSignal.timeout(ms)
    const exported = fetch(`${node.address}${cell}/export`, {
      headers: { 'x-api-key': node.key },
      signal: away,
    })
    await exported.then((response) => response.body?.cancel()).catch(() => {})
  }
  expect(await node.stop()).toEqual([0, null])
  expect(node.stderr).not.toContain('"level":50')
})
