import { execFileSync } from 'node:child_process'
import path from 'node:path'
import { pathToFileURL } from 'node:url'

/** What users have, and not the sources: built anew where the sources are newer. */
const root = path.join(import.meta.dirname, '..')
execFileSync(process.execPath, [path.join(root, 'scripts', 'build-if-needed.mjs')], { stdio: 'inherit' })

/** The library, which only processes that measure it should load. */
export async function builtLibrary(): Promise<typeof import('../src/index.ts')> {
  return await import(pathToFileURL(path.join(root, 'dist', 'index.js')).href)
}
