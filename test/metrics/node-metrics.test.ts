import { describe, expect, test } from 'vitest'
import { METRIC_DEFINITIONS } from '../../src/metrics/definitions.ts'
import { ObservedNode } from '../support/observed-node.ts'
import { ParsedMetrics } from '../support/parsed-metrics.ts'
import { until } from '../support/until.ts'

const NODES = [
  ['a node that runs its cells itself', 0],
  ['a node with workers', 1],
] as const
const ENDLESS = 'WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT max(i) FROM n'
const UUID = /[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-/

describe.each(NODES)('%s', (_, workers) => {
  test('says what it did: requests, statements, commits, backups, restores, object-store calls, refusals', async () => {
    const node = await ObservedNode.start(workers)
    const before = new ParsedMetrics(await node.metrics())
    const cell = await node.newCell('acme')
    const sql = (text: string) => node.request('POST', `/v1/databases/${cell}/sql`, { sql: text })
    await sql('CREATE TABLE t (a)')
    await sql('INSERT INTO t VALUES (1)')
    await sql('SELECT * FROM t')
    expect((await sql('SELECT * FROM nowhere')).status).toBe(400)
    await node.request('PUT', `/v1/databases/${cell}/kv/secret-key`, { value: 'x' })
    expect((await node.request('POST', `/v1/databases/${cell}/backup`, {})).status).toBe(200)
    await sql('INSERT INTO t VALUES (2)')
    expect((await node.request('POST', `/v1/databases/${cell}/backup/incr`, {})).status).toBe(200)
    expect((await node.request('POST', `/v1/databases/${cell}/restore`, {})).status).toBe(200)
    expect((await node.request('GET', '/v1/nowhere')).status).toBe(404)
    await sql('INSERT INTO t VALUES (3)')

    const text = await node.metrics()
    const metrics = new ParsedMetrics(text)
    const grew = (name: string, labels?: Record<string, string>) =>
      (metrics.value(name, labels) ?? 0) - (before.value(name, labels) ?? 0)
    const route = '/v1/databases/{id}/sql'
    const name = 'cellstore_http_requests_total'
    expect(metrics.value(name, { method: 'POST', route, status: '200' })).toBe(5)
    expect(metrics.value(name, { method: 'POST', route, status: '400' })).toBe(1)
    expect(metrics.value(name, { method: 'GET', route: 'none', status: '404' })).toBeUndefined()
    expect(metrics.value(name, { method: 'other', route: 'none', status: '404' })).toBe(1)
    const labels = `{method="POST",route="${route}"}`
    expect(text).toContain(`\ncellstore_http_request_duration_seconds_count${labels} 6\n`)
    expect(text).toMatch(/duration_seconds_bucket\{method="POST",route="[^"]+sql",le="\+Inf"\} 6\n/)
    expect(metrics.value('cellstore_http_refusals_total', { code: 'sql_error' })).toBe(1)
    expect(metrics.value('cellstore_http_refusals_total', { code: 'not_found' })).toBe(1)
    expect(grew('cellstore_statements_total')).toBe(6)
    // CREATE, three INSERTs and a PUT.
    expect(grew('cellstore_commits_total')).toBe(5)
    expect(metrics.value('cellstore_cells')).toBe(1)
    expect(metrics.value('cellstore_cells_open')).toBe(1)
    expect(metrics.value('cellstore_cells_quarantined')).toBe(0)
    expect(metrics.value('cellstore_backups_total', { kind: 'snapshot' })).toBe(1)
    expect(metrics.value('cellstore_backups_total', { kind: 'incremental' })).toBe(1)
    expect(metrics.value('cellstore_restores_total', { cause: 'requested' })).toBe(1)
    expect(metrics.value('cellstore_restores_total', { cause: 'recovery' })).toBe(0)
    expect(metrics.value('cellstore_backup_lag_cells')).toBe(1)
    expect(metrics.value('cellstore_backup_lag_seconds')).toBeGreaterThanOrEqual(0)
    expect(metrics.value('cellstore_backup_age_seconds')).toBeGreaterThanOrEqual(0)
    expect(metrics.value('cellstore_object_store_up')).toBe(1)
    // The two backups, and the catalog before each.
    expect(grew('cellstore_object_store_calls_total', { call: 'put' })).toBeGreaterThanOrEqual(3)
    expect(metrics.value('cellstore_archiver_jobs', { job: 'backup', state: 'running' })).toBe(0)
    expect(metrics.value('cellstore_memory_limit_bytes', { budget: 'bodies' })).toBeGreaterThan(0)
    expect(metrics.value('cellstore_workers')).toBe(workers === 0 ? 0 : workers + 1)
    // Neither ids nor keys are labels: their number has no bound.
    expect(text).not.toMatch(UUID)
    expect(text).not.toMatch(/secret-key|nowhere|acme|cell_sk_/)
  })

  test('serves each metric with its help and type, in a format that a parser reads', async () => {
    const node = await ObservedNode.start(workers)
    const { families } = new ParsedMetrics(await node.metrics())
    const shown = families.map(({ name, help, type }) => ({ name, help, type: type.toLowerCase() }))
    // The parser leaves out those without a value.
    const expected = METRIC_DEFINITIONS.map(({ name, help, type }) => ({ name, help, type }))
    for (const family of shown) expect(expected).toContainEqual(family)
    expect(new Set(shown.map(({ name }) => name)).size).toBe(shown.length)
  })

  test('serves metrics on a port of their own, and nothing else there', async () => {
    const node = await ObservedNode.start(workers)
    const { origin } = new URL(node.metricsAddress)
    expect((await fetch(`${origin}/healthz`)).status).toBe(200)
    expect((await fetch(`${origin}/readyz`)).status).toBe(200)
    expect((await fetch(`${origin}/metrics`, { method: 'HEAD' })).status).toBe(200)
    expect((await fetch(`${origin}/metrics`, { method: 'POST' })).status).toBe(405)
    expect((await fetch(`${origin}/v1/databases`, { headers: { 'x-api-key': node.key } })).status).toBe(404)
    const answer = await fetch(node.metricsAddress)
    expect(answer.headers.get('content-type')).toBe('text/plain; version=0.0.4; charset=utf-8')
    expect(answer.headers.get('cache-control')).toBe('no-store')
  })

  test('never shows its metrics to the holder of a key', async () => {
    const node = await ObservedNode.start(workers)
    for (const route of ['/metrics', '/owner/metrics', '/owner/status']) {
      expect((await node.request('GET', route)).status).toBe(404)
      expect((await fetch(node.address + route)).status).toBe(401)
    }
  })
})

test('a killed worker is counted under its reason', async () => {
  const node = await ObservedNode.start(1)
  const cell = await node.newCell()
  const body = { sql: ENDLESS, timeout_ms: 100 }
  expect((await node.request('POST', `/v1/databases/${cell}/sql`, body)).status).toBe(408)
  const killed = async () =>
    new ParsedMetrics(await node.metrics()).value('cellstore_workers_ended_total', { reason: 'timeout' })
  await until(async () => (await killed()) === 1, 'the worker is counted')
})
