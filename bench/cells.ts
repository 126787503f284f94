import fs from 'node:fs'
import os from 'node:os'
import path from 'node:path'
import { CellStore } from '../src/store/cell-store.ts'

/**
 * Ten thousand cells through one store: created, written once each, and read back. Run it under `ulimit -n 4096`.
 * Prints the time of each step, the process's memory, and the descriptors in use.
 */
const COUNT = Number(process.env['CELLSTORE_BENCH_CELLS'] ?? 10_000)

const directory = fs.mkdtempSync(path.join(os.tmpdir(), 'cellstore-bench-cells-'))
const store = await CellStore.create(path.join(directory, 'data'))
try {
  const report = (step: string, startedAt: number) => {
    const seconds = (performance.now() - startedAt) / 1_000
    const rssMb = process.memoryUsage.rss() / 1_048_576
    const descriptors = fs.readdirSync('/proc/self/fd').length
    console.log(
      `${step.padEnd(8)} ${COUNT} cells in ${seconds.toFixed(1)} s (${(COUNT / seconds).toFixed(0)}/s), RSS ${rssMb.toFixed(0)} MB, ${descriptors} descriptors`,
    )
  }
  let started = performance.now()
  const ids = Array.from({ length: COUNT }, (_, i) => store.createCell({ name: `cell ${i}` }).id)
  report('created', started)

  started = performance.now()
  for (const [i, id] of ids.entries()) store.openCell(id).kv.put('number', String(i))
  report('written', started)

  started = performance.now()
  const wrong = ids.filter((id, i) => store.openCell(id).kv.get('number') !== String(i)).length
  report('read', started)
  console.log(
    `${wrong} of ${COUNT} read back wrong; limits: RSS 600 MB, ${store.settings.openCellsMax} cells open at once`,
  )
  process.exitCode = wrong === 0 ? 0 : 1
} finally {
  await store.close()
  fs.rmSync(directory, { recursive: true, force: true })
}
