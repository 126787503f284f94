import path from 'node:path'
import { pathToFileURL } from 'node:url'
import { expect, onTestFinished, test } from 'vitest'
import { systemClock } from '../../src/base/clock.ts'
import { newCellId, StorePaths } from '../../src/base/files/store-paths.ts'
import { afterMoves, firstAssignment, spansOf } from '../../src/catalog/assignment/assignment.ts'
import { Catalog } from '../../src/catalog/catalog.ts'
import type { CellHost } from '../../src/store/cell-host.ts'
import { CATALOG_SCHEMA } from '../../src/store/store-core.ts'
import { ALL, ScriptedOwnership } from '../support/scripted-cluster.ts'
import { tempDirectory } from '../support/temp-directory.ts'
import { rejectedBy } from '../support/thrown.ts'
import { WorkerStore } from '../support/worker-store.ts'

/** Two nodes with workers and archivers of their own, on one folder of objects. */
async function twoNodes() {
  const root = tempDirectory('cellstore-nodes')
  const storeId = newCellId()
  const objectStore = pathToFileURL(path.join(root, 'objects')).href
  let assignment = firstAssignment('A', '')
  const start = async (name: string, prefix: string) => {
    const folder = path.join(root, name)
    const { catalog } = new StorePaths(path.join(folder, 'data'))
    Catalog.write(catalog, { storeId, createdAt: Date.now(), schema: CATALOG_SCHEMA })
    const ownership = new ScriptedOwnership(name, prefix, assignment, systemClock)
    const node = await WorkerStore.start({ folder, objectStore, store: { ownership } })
    onTestFinished(() => node.close())
    return { ownership, node, store: node.store, service: node.service, host: node.service.host as CellHost }
  }
  const [a, b] = [await start('A', ''), await start('B', 'nodes/B/')]
  const nodes = { A: a, B: b }
  const move = async (from: 'A' | 'B', to: 'A' | 'B') => {
    const end = await nodes[from].host.release([ALL])
    assignment = afterMoves(assignment, [{ ...ALL, node: to, prefix: nodes[to].ownership.prefix, end }])
    for (const { ownership } of Object.values(nodes)) ownership.learn(assignment)
    await nodes[to].host.acquired([ALL])
    nodes[to].ownership.acquire(spansOf(assignment, to))
    await nodes[from].host.forget([ALL])
  }
  return { a, b, move }
}

test('Cells in workers go to another node and back with all that was committed; what asks the wrong node is told so', async () => {
  const { a, b, move } = await twoNodes()
  const remote = { durability: 'remote' } as const
  const ids = [a.store.createCell().id, a.store.createCell(remote).id]
  for (const { deletedAt: _, ...record } of a.store.cellRecords().cells) b.store.registry.insert(record)
  const put = (service: typeof a.service, id: string, value: string) =>
    service.execute(id, { op: 'kv.put', key: 'k', value })
  const get = (service: typeof a.service, id: string) => service.execute(id, { op: 'kv.get', key: 'k' })
  for (const id of ids) await put(a.service, id, 'at A')
  await move('A', 'B')
  for (const id of ids) {
    expect(await get(b.service, id)).toMatchObject({ value: 'at A' })
    expect(await rejectedBy(put(a.service, id, 'wrong'))).toMatchObject({ code: 'cell_moving' })
    await put(b.service, id, 'at B')
  }
  await move('B', 'A')
  for (const id of ids) expect(await get(a.service, id)).toMatchObject({ value: 'at B' })
})
