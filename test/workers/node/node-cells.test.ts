import { expect, test } from 'vitest'
import { NodeCells, type NodeCellsParts } from '../../../src/workers/node/node-cells.ts'
import type { TaskOptions } from '../../../src/workers/node/worker-process.ts'
import type { WorkerTask } from '../../../src/workers/protocol/protocol.ts'

test('a worker is told whether an account has asked for what the archiver has it do', async () => {
  const ran: [cellId: string, isAskedFor: boolean | undefined][] = []
  const workers = {
    runTask: async ({ cellId }: WorkerTask, { isAskedFor }: TaskOptions) =>
      void ran.push([cellId, isAskedFor]),
  }
  const isAskedFor = (cellId: string) => cellId === 'asked for'
  const cells = new NodeCells({ workers, isAskedFor } as unknown as NodeCellsParts)
  for (const cellId of ['asked for', 'scheduled']) await cells.cut(cellId, { method: 'end', args: [] })
  expect(ran).toEqual([
    ['asked for', true],
    ['scheduled', false],
  ])
})
