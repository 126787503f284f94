import { builtLibrary } from '../built.ts'
import { BY_HAND, peakMemoryMib } from './bench-node.ts'

export interface LibraryRestores {
  seconds: number
  /** MiB. */
  peak: number
}

const { CellStore } = await builtLibrary()

/** Opens a store whose cells are lost, and asks for all of them at once: a process of its own, for its memory. */
const [, , data, objectStore] = process.argv as [string, string, string, string]
process.once('message', async (ids: string[]) => {
  const store = await CellStore.open(data, { objectStore, backups: BY_HAND })
  const started = performance.now()
  await Promise.all(ids.map((id) => store.openCell(id).ensureLocal()))
  const seconds = (performance.now() - started) / 1_000
  const result: LibraryRestores = { seconds, peak: peakMemoryMib(process.pid) }
  await store.close()
  process.send?.(result, () => process.disconnect())
})
