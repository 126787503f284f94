import fs from 'node:fs'
import path from 'node:path'
import { expect, test } from 'vitest'
import type { Cell } from '../../../src/store/open/cell.ts'
import { ALL, ScriptedCluster } from '../../support/scripted-cluster.ts'

function values(cell: Cell): string[] {
  return cell.sql<{ v: string }>('SELECT v FROM t ORDER BY rowid').rows.map(({ v }) => v)
}

function add(cell: Cell, value: string): void {
  cell.sql('INSERT INTO t (v) VALUES (?)', [value])
}

/** A cell at A with a version and something in the log after it, and what B has read of its versions. */
async function shippedCell() {
  const cluster = new ScriptedCluster()
  const a = await cluster.start('A')
  const b = await cluster.start('B')
  const cell = cluster.newCell('A')
  cell.sql('CREATE TABLE t (v TEXT)')
  add(cell, 'in the version')
  await cluster.soon(a.store.backups.flush())
  await cluster.soon(a.store.backups.incremental(cell.id))
  add(cell, 'in the log')
  await cluster.soon(a.store.backups.flush())
  const read: string[] = []
  b.link.gates = (call, key) => {
    if (call === 'get' && key.startsWith(`snapshots/${cell.id}/`)) read.push(key)
    return false
  }
  const spool = path.join(cluster.root, 'B', 'spool')
  const prepared = () => fs.readdirSync(spool).filter((name) => name.startsWith('prepared-'))
  /** @param meanwhile what happens between the preparation and the stop */
  const move = async (meanwhile: () => void | Promise<void> = () => {}) => {
    const beforeStop = async () => {
      await b.host.prepare([cell.id])
      expect(prepared()).toHaveLength(1)
      read.splice(0)
      await meanwhile()
    }
    const end = await cluster.soon(a.host.release([ALL], { beforeStop }))
    cluster.assign([{ ...ALL, node: 'B', prefix: b.ownership.prefix, end }])
    await cluster.soon(a.host.forget([ALL]))
    await cluster.acquire('B', [ALL])
    return await cluster.cellAt('B', cell.id)
  }
  return { cluster, a, b, cell, read, prepared, move }
}

test('a node that has prepared a cell reads its version once, and the cell has all that was committed until the stop', async () => {
  const { cell, read, prepared, move } = await shippedCell()
  const moved = await move(() => {
    add(cell, 'after the preparation')
    add(cell, 'and more')
  })
  expect(values(moved)).toEqual(['in the version', 'in the log', 'after the preparation', 'and more'])
  expect(read).toEqual([])
  expect(prepared()).toEqual([])
})

test('a cell that has not changed since needs nothing but the proof', async () => {
  const { read, move } = await shippedCell()
  expect(values(await move())).toEqual(['in the version', 'in the log'])
  expect(read).toEqual([])
})

test('what was prepared is not used if the cell has gone on from another version', async () => {
  const { cluster, a, cell, read, prepared, move } = await shippedCell()
  const moved = await move(async () => {
    await cluster.soon(a.store.backups.restore(cell.id, { timestamp: a.clock.now() }))
    add(cell, 'after a restore')
    await cluster.soon(a.store.backups.snapshot(cell.id))
  })
  expect(values(moved)).toEqual(['in the version', 'in the log', 'after a restore'])
  expect(read.length).toBeGreaterThan(0)
  expect(prepared()).toEqual([])
})

test('a prepared file that is damaged or gone costs a second download, and nothing else', async () => {
  for (const spoil of [(file: string) => fs.rmSync(file), (file: string) => fs.truncateSync(file, 5_000)]) {
    const { cluster, cell, read, prepared, move } = await shippedCell()
    const moved = await move(() => {
      spoil(path.join(cluster.root, 'B', 'spool', prepared()[0] as string, 'incoming.db'))
      add(cell, 'after the preparation')
    })
    expect(values(moved)).toEqual(['in the version', 'in the log', 'after the preparation'])
    expect(read.length).toBeGreaterThan(0)
  }
})

test('a cell that does not come is forgotten after a minute', async () => {
  const { cluster, b, cell, prepared } = await shippedCell()
  await cluster.soon(b.host.prepare([cell.id]))
  expect(prepared()).toHaveLength(1)
  cluster.clock.advance(60_000)
  expect(prepared()).toEqual([])
  expect(values(cell)).toEqual(['in the version', 'in the log'])
})

test('a move goes on if the node cannot prepare its cells', async () => {
  const { cluster, a, b, cell, prepared } = await shippedCell()
  const beforeStop = async () => {
    b.link.failure = 'object_store_unavailable'
    await b.host.prepare([cell.id])
    b.link.open()
    expect(prepared()).toEqual([])
  }
  const end = await cluster.soon(a.host.release([ALL], { beforeStop }))
  cluster.assign([{ ...ALL, node: 'B', prefix: b.ownership.prefix, end }])
  await cluster.acquire('B', [ALL])
  expect(values(await cluster.cellAt('B', cell.id))).toEqual(['in the version', 'in the log'])
})

test('a preparation that fails in its build leaves nothing in the spool', async () => {
  const { b, cell, prepared } = await shippedCell()
  let begun = 0
  b.link.gates = (call) => {
    if (call === 'get' && prepared().length > 0) {
      begun++
      b.link.failure = 'object_store_unavailable'
    }
    return false
  }
  await b.host.prepare([cell.id])
  expect(begun).toBeGreaterThan(0)
  expect(prepared()).toEqual([])
})
