import { once } from 'node:events'
import Database from 'better-sqlite3'
import type { Attack } from './attack.ts'
import { pause, repeat } from './tenant.ts'

const MB_ROWS = 30

export const catalogAttacks: Record<string, Attack> = {
  '3 keys revoked while their requests are under way': async (tenant) => (signal) =>
    repeat(tenant, signal, 4, async () => {
      const { json } = await tenant.ask('POST', '/api-keys')
      const { id, key } = json as { id?: string; key?: string }
      if (id === undefined || key === undefined) return
      const late = tenant.connect()
      late.write(
        `POST /v1/api-keys HTTP/1.1\r\nHost: x\r\nx-api-key: ${key}\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n{`,
      )
      await pause(20, signal)
      await tenant.ask('DELETE', `/api-keys/${id}`)
      late.write('}')
      const [answer] = await once(late, 'data', { signal })
      late.destroy()
      tenant.count(`late: ${String(answer).slice(9, 12)}`)
    }),
  '7 a flood of keys': async (tenant) => (signal) =>
    repeat(tenant, signal, 32, async () => {
      const { json } = await tenant.ask('POST', '/api-keys')
      const { id } = json as { id?: string }
      if (id !== undefined) await tenant.ask('DELETE', `/api-keys/${id}`)
    }),
  '7 a flood of keys that stay, and their listings': async (tenant) => (signal) =>
    repeat(tenant, signal, 32, (turn) => tenant.ask(turn % 4 === 0 ? 'GET' : 'POST', '/api-keys')),
  '7 a flood of cells': async (tenant) => (signal) =>
    repeat(tenant, signal, 32, (turn) =>
      tenant.ask(
        'POST',
        '/databases',
        { name: 'x'.repeat(255) },
        turn % 2 ? { 'idempotency-key': `i${turn}` } : {},
      ),
    ),
  '7 a flood of cells that are made, used and deleted': async (tenant) => (signal) =>
    repeat(tenant, signal, 32, async () => {
      const { json } = await tenant.ask('POST', '/databases')
      const { id } = json as { id?: string }
      if (id === undefined) return
      await tenant.ask('PUT', `/databases/${id}/kv/k`, { value: 'v' })
      await tenant.ask('DELETE', `/databases/${id}`)
    }),
  // Each import is checked in a process of its own, which somebody has to start.
  '0 small databases, imported and deleted': async (tenant) => {
    const file = new Database(':memory:').exec('CREATE TABLE t (x)').serialize()
    return (signal) =>
      repeat(tenant, signal, 8, async () => {
        const { json } = await tenant.ask('POST', '/databases', file, {
          'content-type': 'application/vnd.sqlite3',
        })
        const { id } = json as { id?: string }
        if (id !== undefined) await tenant.ask('DELETE', `/databases/${id}`)
      })
  },
  '7 a flood of entries': async (tenant) => {
    const cells = await tenant.newCells(8)
    return (signal) =>
      repeat(tenant, signal, 32, (turn) => {
        const cell = cells[turn % 8]
        if (turn % 8 === 7) return tenant.ask('GET', `/databases/${cell}/kv?values&limit=1000`)
        const entries = Array.from({ length: 500 }, (_, i) => ({
          key: `${turn}-${i}`,
          value: 'v'.repeat(1_000),
          ttl_seconds: 1,
        }))
        return tenant.ask('POST', `/databases/${cell}/kv/ops/mset`, { entries })
      })
  },
  '10 snapshots of an unchanged cell': async (tenant) => {
    const cells = await tenant.newCells(4)
    for (const cell of cells) {
      await tenant.must(cell, 'CREATE TABLE t (x)')
      for (let i = 0; i < MB_ROWS; i++)
        await tenant.must(
          cell,
          'INSERT INTO t WITH RECURSIVE r(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM r LIMIT 10) SELECT randomblob(100000) FROM r',
        )
    }
    return (signal) =>
      repeat(tenant, signal, 8, (turn) => tenant.ask('POST', `/databases/${cells[turn % 4]}/backup`))
  },
  '10 backups of small cells, in turns with writes': async (tenant) => {
    const cells = await tenant.newCells(40)
    return (signal) =>
      repeat(tenant, signal, 16, async (turn) => {
        const cell = cells[turn % 40]
        await tenant.ask('PUT', `/databases/${cell}/kv/k`, { value: String(turn) })
        await tenant.ask('POST', `/databases/${cell}/backup${turn % 3 === 0 ? '' : '/incr'}`)
      })
  },
  '10 restores in a loop': async (tenant) => {
    const cells = await tenant.newCells(4)
    for (const cell of cells) {
      await tenant.must(cell, 'CREATE TABLE t (x)')
      for (let i = 0; i < 8; i++)
        await tenant.must(
          cell,
          'INSERT INTO t WITH RECURSIVE r(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM r LIMIT 10) SELECT randomblob(100000) FROM r',
        )
      await tenant.ask('POST', `/databases/${cell}/backup`)
    }
    return (signal) =>
      repeat(tenant, signal, 8, (turn) => tenant.ask('POST', `/databases/${cells[turn % 4]}/restore`))
  },
  '10 listings of many backups': async (tenant) => {
    const [cell] = (await tenant.newCells(1)) as [string]
    for (let i = 0; i < 60; i++) {
      await tenant.ask('PUT', `/databases/${cell}/kv/k`, { value: String(i) })
      await tenant.ask('POST', `/databases/${cell}/backup/incr`)
    }
    return (signal) =>
      repeat(tenant, signal, 32, (turn) =>
        tenant.ask('GET', turn % 2 === 0 ? `/databases/${cell}/backups` : `/databases/${cell}`),
      )
  },
}
