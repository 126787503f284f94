import { expect, test } from 'vitest'
import { NodeCells, type NodeCellsParts } from '../../../src/workers/node/node-cells.ts'
import type { TaskOptions } from '../../../src/workers/node/worker-process.ts'
import type { WorkerTask } from '../../../src/workers/protocol/protocol.ts'

test('what the archiver has a worker do is upkeep, unless somebody waits for it', async () => {
  const ran: [cellId: string, isUpkeep: boolean | undefined][] = []
  const workers = {
    runTask: async ({ cellId }: WorkerTask, { isUpkeep }: TaskOptions) => void ran.push([cellId, isUpkeep]),
  }
  const isAwaited = (cellId: string) => cellId === 'awaited'
  const cells = new NodeCells({ workers, isAwaited } as unknown as NodeCellsParts)
  for (const cellId of ['awaited', 'scheduled']) await cells.cutIncremental(cellId, 'version', 16)
  expect(ran).toEqual([
    ['awaited', false],
    ['scheduled', true],
  ])
})
