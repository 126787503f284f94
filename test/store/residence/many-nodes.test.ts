import { describe, expect, test } from 'vitest'
import { parseVersion } from '../../../src/backup/versions/object-keys.ts'
import { InProcessService } from '../../../src/service/in-process-service.ts'
import type { Cell } from '../../../src/store/open/cell.ts'
import { BOUNDS } from '../../support/request-bounds.ts'
import { ALL, ScriptedCluster } from '../../support/scripted-cluster.ts'
import { rejectedBy } from '../../support/thrown.ts'
import { until } from '../../support/until.ts'

const HOUR_MS = 3_600_000

function values(cell: Cell): string[] {
  return cell.sql<{ v: string }>('SELECT v FROM t ORDER BY rowid').rows.map(({ v }) => v)
}

function add(cell: Cell, value: string): void {
  cell.sql('INSERT INTO t (v) VALUES (?)', [value])
}

/** Two nodes, and a cell at the first one with a table. */
async function twoNodes(ahead: { a?: number; b?: number } = {}) {
  const cluster = new ScriptedCluster()
  const a = await cluster.start('A', { aheadMs: ahead.a ?? 0 })
  const b = await cluster.start('B', { aheadMs: ahead.b ?? 0 })
  const cell = cluster.newCell('A')
  cell.sql('CREATE TABLE t (v TEXT)')
  add(cell, 'first')
  return { cluster, a, b, cell }
}

describe.each([
  ['as that of all', {}],
  ['an hour ahead at the first node', { a: HOUR_MS }],
  ['an hour ahead at the second node', { b: HOUR_MS }],
])('With a clock %s', (_, ahead) => {
  test('a cell that moves has all that was committed, and every moment of both tenures can be restored', async () => {
    const { cluster, a, b, cell } = await twoNodes(ahead)
    await cluster.soon(a.store.backups.flush())
    await cluster.soon(a.store.backups.incremental(cell.id))
    cluster.clock.advance(1_000)
    add(cell, 'in the log')
    await cluster.soon(a.store.backups.flush())
    const inA = a.clock.now()
    cluster.clock.advance(1_000)
    add(cell, 'not shipped')
    await cluster.move('A', 'B')
    expect(a.store.core.files.exists(cell.id)).toBe(false)

    const atB = await cluster.cellAt('B', cell.id)
    expect(values(atB)).toEqual(['first', 'in the log', 'not shipped'])
    add(atB, 'at B')
    await cluster.soon(b.store.backups.incremental(cell.id))
    // The cell's line of time stands still until the clock has come up with it.
    cluster.clock.advance(2 * HOUR_MS)
    add(atB, 'in the log of B')
    await cluster.soon(b.store.backups.flush())
    const listed = await cluster.soon(b.store.backups.list(cell.id))
    const inB = listed.restorable[0]?.to as number
    cluster.clock.advance(1_000)
    add(atB, 'too late')
    await cluster.soon(b.store.backups.restore(cell.id, { timestamp: inB }))
    expect(values(atB)).toEqual(['first', 'in the log', 'not shipped', 'at B', 'in the log of B'])
    await cluster.soon(b.store.backups.restore(cell.id, { timestamp: inA }))
    expect(values(atB)).toEqual(['first', 'in the log'])
    // The undo of it.
    const after = await cluster.soon(b.store.backups.list(cell.id))
    expect(after.backups.length).toBeGreaterThan(0)
    await cluster.soon(b.store.backups.restore(cell.id, { timestamp: inB }))
    expect(values(atB)).toEqual(['first', 'in the log', 'not shipped', 'at B', 'in the log of B'])
  })

  test('a cell that moves on before its second node has a base has all of both tenures (C5)', async () => {
    const { cluster, cell } = await twoNodes(ahead)
    await cluster.start('C')
    await cluster.move('A', 'B')
    await cluster.move('B', 'C')
    const atC = await cluster.cellAt('C', cell.id)
    expect(values(atC)).toEqual(['first'])
    add(atC, 'at C')
    await cluster.move('C', 'A')
    const again = await cluster.cellAt('A', cell.id)
    expect(values(again)).toEqual(['first', 'at C'])
    add(again, 'at A again')
    await cluster.move('A', 'B')
    expect(values(await cluster.cellAt('B', cell.id))).toEqual(['first', 'at C', 'at A again'])
  })
})

describe('A node that is silent', () => {
  const remote = { durability: 'remote' } as const

  test('has lost nothing that it acknowledged in remote, and what it puts after its end counts for nothing (C3, C5)', async () => {
    const cluster = new ScriptedCluster()
    const a = await cluster.start('A')
    const b = await cluster.start('B')
    const { id } = cluster.newCell('A', remote)
    const cell = a.store.openCell(id)
    await cluster.soon(cell.commit(() => void cell.sql('CREATE TABLE t (v TEXT)')))
    await cluster.soon(cell.commit(() => add(cell, 'acknowledged')))
    // The next log object is on its way for a long time.
    a.link.gates = (call, key) => call === 'put' && key.startsWith('log/')
    const late = rejectedBy(cell.commit(() => add(cell, 'late')))
    await cluster.soon(a.link.arrival())
    // B has no version of the cell before it is lost itself.
    b.link.gates = (call, key) => call === 'put' && key.startsWith(`snapshots/${id}`)
    await cluster.takeOver('A', 'B')
    const atB = await cluster.cellAt('B', id)
    expect(values(atB)).toEqual(['acknowledged'])
    a.link.open()
    expect(await cluster.soon(late)).toMatchObject({ code: 'taken_over' })
    expect(await cluster.keys('log/')).toHaveLength(2)
    await cluster.start('C')
    await cluster.takeOver('B', 'C')
    expect(values(await cluster.cellAt('C', id))).toEqual(['acknowledged'])
    expect(b.store.core.files.exists(id)).toBe(true)
  })

  test('finds its ranges back, and serves nothing of the files that it left', async () => {
    const cluster = new ScriptedCluster()
    const a = await cluster.start('A')
    await cluster.start('B')
    const cell = cluster.newCell('A')
    cell.sql('CREATE TABLE t (v TEXT)')
    add(cell, 'shipped')
    await cluster.soon(a.store.backups.flush())
    await cluster.soon(a.store.backups.incremental(cell.id))
    add(cell, 'only at A')
    await cluster.takeOver('A', 'B')
    add(await cluster.cellAt('B', cell.id), 'at B')
    await cluster.stop('A')
    // It joins under a new name, with its old directory, and gets the cells back.
    await cluster.rejoin('A', 'A2')
    await cluster.move('B', 'A2')
    const again = await cluster.cellAt('A2', cell.id)
    expect(values(again)).toEqual(['shipped', 'at B'])
  })

  test('restarts within the time that others wait, and has its cells as they were', async () => {
    const cluster = new ScriptedCluster()
    await cluster.start('A')
    const cell = cluster.newCell('A')
    cell.sql('CREATE TABLE t (v TEXT)')
    add(cell, 'not shipped')
    await cluster.stop('A')
    await cluster.start('A')
    expect(values(await cluster.cellAt('A', cell.id))).toEqual(['not shipped'])
  })
})

describe('The log of a node that is gone', () => {
  test('goes with its age, but not before its cells have versions of their new node; its newest object and its fence stay (C9)', async () => {
    const cluster = new ScriptedCluster({ backups: { historyMs: HOUR_MS } })
    const [a, b] = [await cluster.start('A'), await cluster.start('B')]
    const cell = cluster.newCell('A')
    cell.sql('CREATE TABLE t (v TEXT)')
    await cluster.soon(a.store.backups.incremental(cell.id))
    for (const value of ['one', 'two', 'three']) {
      cluster.clock.advance(1_000)
      add(cell, value)
      await cluster.soon(a.store.backups.flush())
    }
    const fences = await cluster.keys('fence/')
    const logs = await cluster.keys('log/')
    expect(logs.length).toBeGreaterThan(2)
    await cluster.takeOver('A', 'B')
    const other = cluster.newCell('B')
    other.sql('CREATE TABLE t (v TEXT)')
    await cluster.soon(b.store.backups.incremental(other.id))
    const round = async () => {
      cluster.clock.advance(25 * HOUR_MS)
      add(other, 'so that an object is stored')
      await cluster.soon(b.store.backups.flush())
      cluster.clock.advance(1_000)
      await cluster.soon(b.store.backups.flush())
    }
    for (let i = 0; i < 3; i++) await round()
    expect(await cluster.keys('log/')).toEqual(logs)
    const atB = await cluster.cellAt('B', cell.id)
    // A look at the log goes on beside the rounds, and the next one begins only once it has ended.
    const isPruned = async () => {
      await round()
      return (await cluster.keys('log/')).length === 1
    }
    await until(isPruned, 'the old log objects are gone', 20_000)
    expect(await cluster.keys('log/')).toEqual(logs.slice(-1))
    expect(await cluster.keys('fence/')).toEqual([...fences, expect.any(String)])
    expect(values(atB)).toEqual(['one', 'two', 'three'])
  })
})

describe('A planned move', () => {
  test('sets aside what a move before it could not remove', async () => {
    const { cluster, a, cell } = await twoNodes()
    const end = await cluster.soon(a.host.release([ALL]))
    cluster.assign([{ ...ALL, node: 'B', prefix: 'nodes/B/', end }])
    // A ends here, and has not forgotten the cell.
    await cluster.stop('A')
    await cluster.acquire('B', [ALL])
    add(await cluster.cellAt('B', cell.id), 'at B')
    const again = await cluster.start('A')
    expect(again.store.core.files.exists(cell.id)).toBe(false)
    await cluster.move('B', 'A')
    expect(values(await cluster.cellAt('A', cell.id))).toEqual(['first', 'at B'])
  })

  test('sets aside what is left at a node that runs on', async () => {
    const { cluster, a, cell } = await twoNodes()
    const end = await cluster.soon(a.host.release([ALL]))
    cluster.assign([{ ...ALL, node: 'B', prefix: 'nodes/B/', end }])
    await cluster.acquire('B', [ALL])
    add(await cluster.cellAt('B', cell.id), 'at B')
    await cluster.move('B', 'A')
    expect(values(await cluster.cellAt('A', cell.id))).toEqual(['first', 'at B'])
  })

  test('waits for requests that run, and refuses those that come; one that does not happen changes nothing', async () => {
    const { cluster, a, cell } = await twoNodes()
    const service = new InProcessService(a.store, { restoreWaitMs: 1_000, bounds: BOUNDS })
    const put = (value: string) => service.execute(cell.id, { op: 'kv.put', key: 'k', value })
    const running = put('before')
    const released = cluster.soon(a.host.release([ALL]))
    await Promise.all([running, released])
    expect(await rejectedBy(put('refused'))).toMatchObject({ code: 'cell_moving' })
    expect(await rejectedBy(a.store.backups.incremental(cell.id))).toMatchObject({ code: 'cell_moving' })
    expect(await rejectedBy(a.store.purgeCell(cell.id))).toMatchObject({ code: 'cell_moving' })
    a.host.resume([ALL])
    await put('after')
    expect(cell.kv.get('k')).toBe('after')
    await cluster.move('A', 'B')
    expect((await cluster.cellAt('B', cell.id)).kv.get('k')).toBe('after')
  })

  test('five times back and forth leaves each version the time of its clock, and every moment between two can be restored', async () => {
    const { cluster, cell } = await twoNodes()
    const [times, moments]: [number[], number[]] = [[], []]
    const nodes = ['A', 'B'] as const
    for (let i = 0; i < 6; i++) {
      const [here, there] = i % 2 === 0 ? nodes : nodes.toReversed()
      const at = await cluster.cellAt(here as string, cell.id)
      const { backups } = cluster.node(here as string).store
      add(at, `move ${i}`)
      const { version } = await cluster.soon(backups.snapshot(cell.id))
      const stamp = parseVersion(version)?.time as number
      expect(Math.abs(stamp - cluster.clock.now())).toBeLessThan(1_500)
      expect(stamp).toBeGreaterThan(times.at(-1) ?? 0)
      times.push(stamp)
      cluster.clock.advance(1_000)
      add(at, `after ${i}`)
      await cluster.soon(backups.flush())
      moments.push(cluster.clock.now())
      cluster.clock.advance(3_000)
      if (i < 5) await cluster.move(here as string, there as string)
    }
    const last = await cluster.cellAt('B', cell.id)
    for (const [i, timestamp] of moments.entries()) {
      await cluster.soon(cluster.node('B').store.backups.restore(cell.id, { timestamp }))
      expect(values(last).slice(-2)).toEqual([`move ${i}`, `after ${i}`])
    }
  })

  test('of some ranges leaves the cells of others alone', async () => {
    const { cluster, a, b, cell } = await twoNodes()
    await cluster.move('A', 'B', [{ lo: 2_048, hi: 4_095 }])
    add(cell, 'still at A')
    expect(a.store.core.residence.isHere(cell.id)).toBe(true)
    expect(b.store.core.residence.isHere(cell.id)).toBe(false)
    const other = b.store.createCell()
    expect(b.store.core.residence.isHere(other.id)).toBe(true)
  })
})
