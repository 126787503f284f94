import { expect, test, vi } from 'vitest'
import type { CollectedLook } from '../../src/backup/changes/log/cell-log.ts'
import type { PackedPiece } from '../../src/backup/changes/log/packed-logs.ts'
import { NodeCells } from '../../src/workers/node/archiver/node-cells.ts'
import { until } from '../support/until.ts'
import { openWorkerStore, type WorkerStore } from '../support/worker-store.ts'

const ALL = { cellsMax: 1_000, bytesMax: 1_000_000_000 }

/** The way of the archiver to the node's cells, which the node shows nobody. */
async function cellsOf(node: WorkerStore, cellId: string): Promise<NodeCells> {
  let cells: NodeCells | undefined
  const { beginBackup } = NodeCells.prototype
  vi.spyOn(NodeCells.prototype, 'beginBackup').mockImplementation(function (this: NodeCells, id) {
    cells = this
    return beginBackup.call(this, id)
  })
  await node.service.backups.snapshot(cellId)
  vi.restoreAllMocks()
  return cells as NodeCells
}

async function collected(
  cells: NodeCells,
  isEnough: (logs: CollectedLook<PackedPiece>) => boolean,
): Promise<CollectedLook<PackedPiece>> {
  let logs = await cells.collectLogs(ALL)
  await until(async () => {
    logs = await cells.collectLogs(ALL)
    return logs.isAll && isEnough(logs)
  }, 'the workers tell what is expected')
  return logs
}

test('a node collects what its workers commit; of a killed worker it is found again, although nobody uses the cell', async () => {
  const node = await openWorkerStore({ service: { workers: 2 } })
  const { service, store } = node
  const { id } = store.createCell()
  await service.execute(id, { op: 'kv.put', key: 'a', value: '1' })
  const cells = await cellsOf(node, id)
  await service.execute(id, { op: 'kv.put', key: 'b', value: '2' })
  const before = await collected(cells, ({ logs }) => logs.length === 1)
  const [log] = before.logs
  const piece = log?.pieces.at(-1)
  if (log === undefined || piece === undefined) throw new Error('nothing was collected')
  expect(log).toMatchObject({ cellId: id })
  expect(before.withoutHistory).toEqual([])
  await cells.logsShipped([{ cellId: id, history: log.history, sequence: piece.sequence, frames: piece.to }])
  expect(await collected(cells, ({ logs }) => logs.length === 0)).toMatchObject({ isAll: true })

  await service.execute(id, { op: 'kv.put', key: 'c', value: '3' })
  node.isKilled = true
  for (const pid of node.workers) process.kill(pid, 'SIGKILL')
  const after = await collected(cells, ({ logs }) => logs.length === 1)
  expect(after.logs[0]).toMatchObject({ cellId: id, history: log.history })
  expect(after.logs[0]?.pieces.at(-1)?.to).toBeGreaterThan(piece.to)

  await cells.dropHistory(id)
  await service.execute(id, { op: 'kv.put', key: 'd', value: '4' })
  expect(
    (await collected(cells, ({ withoutHistory }) => withoutHistory.length === 1)).withoutHistory,
  ).toEqual([id])
})
