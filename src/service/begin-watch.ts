import type { ChangeStream } from '../store/watch/change-stream.ts'
import type { CellService, OperationPermit } from './cell-service.ts'
import type { CellOperation } from './operations.ts'

/** Does nothing, in the cell's turn: whatever was asked of the cell before it has been done. */
const NOTHING = (): CellOperation => ({ op: 'kv.ttl', keys: [] })

/**
 * Begins a watch. What is under way in the cell at that moment has ended when this resolves: it may have begun before
 * anybody listened to its commit.
 *
 * @throws as `CellService.execute`; then the watch is ended
 */
export async function beginWatch(
  service: Pick<CellService, 'execute'>,
  cellId: string,
  stream: ChangeStream,
  { signal, permit }: { signal?: AbortSignal | undefined; permit?: OperationPermit | undefined },
): Promise<ChangeStream> {
  try {
    signal?.throwIfAborted()
    stream.open()
    await service.execute(cellId, NOTHING(), { signal, permit })
    return stream
  } catch (error) {
    await stream.return()
    throw error
  }
}
