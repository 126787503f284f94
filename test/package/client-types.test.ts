import fs from 'node:fs'
import os from 'node:os'
import path from 'node:path'
import { beforeAll, expect, onTestFinished, test } from 'vitest'
import { PROJECT, run } from '../support/package/run.ts'

const BUILD_TIMEOUT_MS = 180_000
const CHECK_TIMEOUT_MS = 60_000

/** Calls of each form: with a path, a body, a query, and without arguments; and what must stay an error. */
const PROGRAM = `import { createClient, integer } from 'cellstore/client'

const cells = createClient({ baseUrl: 'http://cells.test', apiKey: 'k' })
export const { id } = await cells.createCell({ name: 'acme' })
await cells.createCell()
await cells.listCells({ limit: 10 })
await cells.listCells({ limit: undefined, cursor: undefined })
await cells.kvPut({ id, key: 'k', value: 'v', ttl_seconds: 5 })
export const rows: { n: number }[] = (await cells.sql<{ n: number }>({ id, sql: 'SELECT 1 AS n', params: [integer(1n)] })).rows
export const lists: unknown[][] = (await cells.sql({ id, sql: 'SELECT 1', row_mode: 'array' })).rows
// @ts-expect-error: the arguments are missing
await cells.getCell()
// @ts-expect-error: ttl_seconds
await cells.kvPut({ id, key: 'k', value: 'v', ttl: 5 })
// @ts-expect-error: all cells, not those of a name
await cells.listCells({ name: undefined })
// @ts-expect-error: the newest version, not this one
await cells.restore({ id, version: undefined })
// @ts-expect-error: any version
await cells.kvMset({ id, entries: [{ key: 'k', value: 'v', if_version: undefined }] })
export type First = Parameters<typeof cells.restore>[0]
export const first: First = { id, version: 'x' }
`

beforeAll(async () => {
  const build = { cwd: PROJECT, timeoutMs: BUILD_TIMEOUT_MS }
  const { code, stderr } = await run(process.execPath, ['scripts/build-if-needed.mjs'], build)
  expect({ code, stderr }).toMatchObject({ code: 0 })
}, BUILD_TIMEOUT_MS)

test.each([true, false])(
  'the client has its types in a program with exactOptionalPropertyTypes %s',
  async (exactOptionalPropertyTypes) => {
    const folder = fs.mkdtempSync(path.join(os.tmpdir(), 'cellstore-client-types-'))
    onTestFinished(() => fs.rmSync(folder, { recursive: true, force: true }))
    fs.writeFileSync(path.join(folder, 'program.mts'), PROGRAM)
    const compilerOptions = {
      ...{ target: 'es2023', module: 'nodenext', strict: true, exactOptionalPropertyTypes, noEmit: true },
      ...{ lib: ['es2023', 'dom'], types: [] },
      paths: { 'cellstore/client': [path.join(PROJECT, 'dist', 'client.d.ts')] },
    }
    const project = { compilerOptions, files: ['program.mts'] }
    fs.writeFileSync(path.join(folder, 'tsconfig.json'), JSON.stringify(project))
    const tsc = path.join(PROJECT, 'node_modules', 'typescript', 'bin', 'tsc')
    const { code, stdout } = await run(process.execPath, [tsc], { cwd: folder })
    expect({ code, stdout }).toEqual({ code: 0, stdout: '' })
  },
  CHECK_TIMEOUT_MS,
)
