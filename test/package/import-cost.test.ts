import path from 'node:path'
import { pathToFileURL } from 'node:url'
import { describe, expect, test } from 'vitest'
import { PROJECT, run } from '../support/package/run.ts'

/** Packages, or scopes of packages, that a program loads only when it uses them. */
const LOADED_LATE = ['@aws-sdk', '@smithy']

describe.each(['src/index.ts', 'dist/index.js'])('a program that imports %s', (entry) => {
  test('loads no package that it may never use', async () => {
    const loaded = await packagesLoadedBy(entry, '')
    expect(loaded).toContain('better-sqlite3')
    expect(loaded.filter(isLate)).toEqual([])
  })

  test('makes an S3 store without the AWS SDK', async () => {
    const loaded = await packagesLoadedBy(entry, `new cellstore.S3ObjectStore({ bucket: 'bucket' })`)
    expect(loaded.filter(isLate)).toEqual([])
  })

  test('loads the AWS SDK with the first request of an S3 store', async () => {
    const loaded = await packagesLoadedBy(
      entry,
      `const options = { bucket: 'bucket', endpoint: 'http://127.0.0.1:1', patience: { attempts: 1 } }
      await new cellstore.S3ObjectStore(options).head('key').catch(() => {})`,
    )
    expect(loaded).toContain('@aws-sdk/client-s3')
  })
})

describe.each(['src/client/index.ts', 'dist/client.js'])('a program that imports %s', (entry) => {
  test('loads nothing but the client: it runs in browsers too', async () => {
    const urls = await urlsLoadedBy(entry, "cellstore.createClient({ baseUrl: 'http://x' })")
    // The two of src import nothing of the platform, and are bundled.
    const own = /\/(src\/client|dist)\/|\/src\/(base\/options\/known-names|errors)\.ts$/
    const foreign = urls.filter((url) => !own.test(url))
    expect(foreign).toEqual([])
  })
})

function isLate(name: string): boolean {
  return LOADED_LATE.some((late) => name === late || name.startsWith(`${late}/`))
}

/** The packages of which a process loads any file: it imports the entry as `cellstore` and runs the statements. */
async function packagesLoadedBy(entry: string, statements: string): Promise<string[]> {
  const names = (await urlsLoadedBy(entry, statements)).map(
    (file) => /.*\/node_modules\/((?:@[^/]+\/)?[^/]+)/.exec(file)?.[1],
  )
  return [...new Set(names.filter((name) => name !== undefined))].sort()
}

async function urlsLoadedBy(entry: string, statements: string): Promise<string[]> {
  const url = pathToFileURL(path.join(PROJECT, entry)).href
  const program = `
    import { registerHooks } from 'node:module'
    const urls = []
    registerHooks({
      load(url, context, nextLoad) {
        urls.push(url)
        return nextLoad(url, context)
      },
    })
    const cellstore = await import(${JSON.stringify(url)})
    ${statements}
    console.log(JSON.stringify(urls))`
  const args = ['--input-type=module', '--eval', program]
  const { code, stdout, stderr } = await run(process.execPath, args, { cwd: PROJECT })
  expect(code, stderr).toBe(0)
  return JSON.parse(stdout) as string[]
}
