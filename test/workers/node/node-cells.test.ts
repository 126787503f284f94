import { expect, test } from 'vitest'
import { NodeCells, type NodeCellsParts } from '../../../src/workers/node/node-cells.ts'
import type { TaskOptions } from '../../../src/workers/node/worker-process.ts'
import type { WorkerTask } from '../../../src/workers/protocol/protocol.ts'

test('what the archiver has a worker do is upkeep, unless an account has asked for it', async () => {
  const ran: [cellId: string, isUpkeep: boolean | undefined][] = []
  const workers = {
    runTask: async ({ cellId }: WorkerTask, { isUpkeep }: TaskOptions) => void ran.push([cellId, isUpkeep]),
  }
  const isAskedFor = (cellId: string) => cellId === 'asked for'
  const cells = new NodeCells({ workers, isAskedFor } as unknown as NodeCellsParts)
  for (const cellId of ['asked for', 'scheduled']) await cells.cutIncremental(cellId, 'version', 16)
  expect(ran).toEqual([
    ['asked for', false],
    ['scheduled', true],
  ])
})
