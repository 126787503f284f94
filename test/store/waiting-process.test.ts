import { execFile } from 'node:child_process'
import path from 'node:path'
import { pathToFileURL } from 'node:url'
import { promisify } from 'node:util'
import { expect, test } from 'vitest'
import { tempDirectory } from '../support/temp-directory.ts'

const STORE = pathToFileURL(path.join(import.meta.dirname, '../../src/store/cell-store.ts')).href

/** A program that does nothing else than wait, several times, and says so at its end. */
async function run(waits: string): Promise<string> {
  const directory = tempDirectory()
  const objectStore = pathToFileURL(path.join(directory, 'objects')).href
  const program = `
    import { CellStore } from ${JSON.stringify(STORE)}
    const options = { objectStore: ${JSON.stringify(objectStore)}, backups: { recoverInBackground: false } }
    const store = await CellStore.create(${JSON.stringify(path.join(directory, 'data'))}, options)
    const cell = store.createCell()
    for (let i = 0; i < 4; i++) {
      cell.kv.put('key', String(i))
      await ${waits}
    }
    console.log('waited')
    await store.close()`
  const { stdout } = await promisify(execFile)(process.execPath, ['--input-type=module', '--eval', program])
  return stdout
}

const RESTORE = 'store.backups.snapshot(cell.id).then(() => store.backups.restore(cell.id))'

test.each(['cell.replicated()', 'store.backups.flush()', RESTORE])(
  'a program that only waits for %s lives until that is over',
  async (waits) => {
    expect(await run(waits)).toBe('waited\n')
  },
)
