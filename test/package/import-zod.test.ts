import fs from 'node:fs'
import path from 'node:path'
import { pathToFileURL } from 'node:url'
import { beforeAll, expect, test } from 'vitest'
import { PROJECT, run } from '../support/package/run.ts'
import { tempDirectory } from '../support/temp-directory.ts'

const BUILD_TIMEOUT_MS = 180_000
const DIST = pathToFileURL(path.join(PROJECT, 'dist')).href
/** What a program pays for only once it makes a backup or serves HTTP. */
const LATER = ['zod', 'tar-stream', 'node:http']

beforeAll(async () => {
  const build = { cwd: PROJECT, timeoutMs: BUILD_TIMEOUT_MS }
  const { code, stderr } = await run(process.execPath, ['scripts/build-if-needed.mjs'], build)
  expect({ code, stderr }).toMatchObject({ code: 0 })
}, BUILD_TIMEOUT_MS)

/** The files of the build that hold zod, as the others import them. */
function zodFiles(): string[] {
  const dist = path.join(PROJECT, 'dist')
  const holdsZod = (name: string) =>
    name.endsWith('.js') && fs.readFileSync(path.join(dist, name), 'utf8').includes('// node_modules/zod/')
  const files = fs.readdirSync(dist).filter(holdsZod)
  expect(files.length).toBeGreaterThan(0)
  return files.map((file) => `./${file}`)
}

/** Of {@link LATER}, what our own files have loaded at the end of a program that has a store. */
async function loadedBy(program: string): Promise<string[]> {
  const zod = JSON.stringify(zodFiles())
  const data = JSON.stringify(path.join(tempDirectory(), 'data'))
  const text = `
    import { registerHooks } from 'node:module'
    const loaded = new Set()
    registerHooks({
      resolve(name, context, next) {
        if (context.parentURL?.startsWith('${DIST}/')) loaded.add(${zod}.includes(name) ? 'zod' : name)
        return next(name, context)
      },
    })
    const { CellStore, createHandler } = await import('${DIST}/index.js')
    const store = await CellStore.create(${data})
    const handler = createHandler(store)
    ${program}
    await store.close()
    console.log(JSON.stringify([...loaded]))`
  const args = ['--input-type=module', '-e', text]
  const { code, stdout, stderr } = await run(process.execPath, args, { cwd: PROJECT })
  expect({ code, stderr }).toEqual({ code: 0, stderr: '' })
  return (JSON.parse(stdout) as string[]).filter((name) => LATER.includes(name)).sort()
}

test('a program that uses cells, and has a handler, loads nothing that only backups and HTTP need', async () => {
  expect(await loadedBy("store.createCell().kv.put('k', 'v')")).toEqual([])
})

test('the first request loads what checks its body', async () => {
  expect(await loadedBy("await handler(new Request('http://x/healthz'))")).toEqual(['node:http', 'zod'])
})
