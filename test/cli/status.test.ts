import { expect, test } from 'vitest'
import { Workplace } from '../support/cli/workplace.ts'
import { until } from '../support/until.ts'

const TIME = expect.stringMatching(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/)
const COUNT = expect.any(Number)

test.each([
  ['with workers', ['--workers', '1']],
  ['without workers', ['--workers', '0']],
])('status shows how a node %s is, for people and as one document', async (_, flags) => {
  const place = new Workplace()
  // Nothing is shipped or stored while the test looks.
  const node = await place.serve(...flags, '--max-lag', '1h')
  const { id, account_id } = await place.json('cells', 'create', '--name', 'acme')
  await place.text('sql', id as string, 'CREATE TABLE t (a)')
  let status = await place.json('status')
  // The first look at what cells have not shipped may wait for the search for such cells.
  const isLooked = () => (status['backups'] as { shipping: { backed_up_to: unknown } }).shipping.backed_up_to
  while (isLooked() === null) status = await place.json('status')
  const hasWorkers = flags[1] === '1'
  expect(status).toEqual({
    version: expect.stringMatching(/^\d+\.\d+\.\d+/),
    pid: node.pid,
    store_id: expect.any(String),
    data_dir: place.dataDir,
    started_at: TIME,
    uptime_ms: COUNT,
    statements: 1,
    commits: 1,
    requests: { count: COUNT, failed: 0, routes: expect.any(Array) },
    slow_statements: [],
    cells: {
      count: 1,
      open: 1,
      bytes: COUNT,
      largest: [{ id, name: 'acme', account_id, size_bytes: COUNT }],
      busiest: [{ id, name: 'acme', account_id, operations: 1 }],
      quarantined_count: 0,
      quarantined: [],
    },
    backups: {
      object_store: expect.stringMatching(/^file:/),
      object_store_lost_at: null,
      lag_ms: COUNT,
      oldest_change_at: TIME,
      changed: 1,
      newest_stored_at: null,
      damaged: 0,
      stored: { snapshot: 0, incremental: 0 },
      failed: 0,
      restored: 0,
      recovered: 0,
      restores_failed: 0,
      shipping: {
        backed_up_to: TIME,
        lag_ms: COUNT,
        last_object: null,
        objects: 0,
        bytes: 0,
        waiting_bytes: 0,
        without_history: COUNT,
        failing_since: null,
      },
      queue: {
        restore: { waiting: 0, running: 0 },
        backup: { waiting: 0, running: 0 },
        verify: { waiting: 0, running: 0 },
      },
    },
    recovery: null,
    workers: hasWorkers ? { running: COUNT, ended: {}, operations_waiting: 0, bytes_waiting: 0 } : null,
    failures: [],
  })
  // A key with the access owner gets the same over HTTP, and no other key does.
  const { key } = await place.json<{ key: string }>(
    'keys',
    'create',
    '--owner',
    '--account',
    String(account_id),
  )
  const { body } = await node.request('GET', '/v1/status', undefined, key)
  expect(Object.keys(body)).toEqual(Object.keys(status))
  expect(body).toMatchObject({ pid: node.pid, commits: 1, failures: [] })
  expect((await node.request('GET', '/v1/status')).status).toBe(403)
  const text = await place.text('status')
  expect(text).toMatch(/^cellstore \d.*, process \d+, up /)
  expect(text).toContain('1 cell to back up')
  expect(text).toContain('acme')
  expect(text).toContain('No failures since the start.')
})

test('status fails where no node runs, and says how to start one', async () => {
  const place = new Workplace()
  const { exit, code, message } = await place.failure('status')
  expect({ exit, code }).toEqual({ exit: 1, code: 'store_closed' })
  expect(message).toContain('cellstore serve')
  expect(place.has('data')).toBe(false)
})

test.each([
  ['--slow', '0ms'],
  ['--slow', '5'],
  ['--slow', 'off'],
  ['--metrics-port', '65536'],
])('serve %s %s is refused', async (flag, value) => {
  const { exit, message } = await new Workplace().failure('serve', flag, value)
  expect(exit).toBe(2)
  expect(message).toContain(flag)
})

test('the metrics of a node are on a port of their own, which the log names', async () => {
  const place = new Workplace({ CELLSTORE_METRICS_PORT: '0', CELLSTORE_SLOW: '250ms' })
  const node = await place.serve('--workers', '0')
  await until(() => node.stderr.includes('metrics are served'), 'the log names the port')
  const [, address] = /"address":"([^"]+\/metrics)","msg":"metrics are served"/.exec(node.stderr) ?? []
  expect(await (await fetch(String(address))).text()).toContain('cellstore_info{version="')
})
