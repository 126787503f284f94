import { execFileSync } from 'node:child_process'
import fs from 'node:fs'
import path from 'node:path'
import Database from 'better-sqlite3'
import { expect } from 'vitest'
import { tempDirectory } from '../temp-directory.ts'
import { hasTools } from './tools.ts'

const DOCUMENT = fs.readFileSync(new URL('../../../docs/format.md', import.meta.url), 'utf8')
const SCRIPTS = ['recover.sh', 'recover-to.sh']

/** Whether this machine has what recovery by hand needs. */
export const HAS_TOOLS = hasTools('zstd', 'tar', 'sqlite3', 'sha256sum', 'awk', 'date')

/** Recovers a version without a line of ours. @returns the database's file */
export function recoverByHand(objects: string, version: string): string {
  return run('recover.sh', objects, version)
}

/** Recovers a cell as it was at a moment. */
export function recoverToByHand(objects: string, cellId: string, moment: number | string): string {
  const time = typeof moment === 'number' ? new Date(moment).toISOString() : moment
  return run('recover-to.sh', objects, cellId, time)
}

export function query(file: string, sql: string): unknown[] {
  const connection = new Database(file, { readonly: true })
  try {
    return connection.prepare(sql).raw().all()
  } finally {
    connection.close()
  }
}

/** The scripts, exactly as docs/format.md prints them. */
function run(script: string, ...args: string[]): string {
  const folder = tempDirectory()
  for (const name of SCRIPTS) fs.writeFileSync(path.join(folder, name), textOf(name))
  execFileSync('sh', [script, ...args, 'recovered.db'], { cwd: folder, stdio: 'pipe' })
  expect(fs.readdirSync(folder).sort()).toEqual([...SCRIPTS, 'recovered.db'].sort())
  return path.join(folder, 'recovered.db')
}

function textOf(script: string): string {
  const begin = DOCUMENT.indexOf(`\n# ${script}:`)
  if (begin === -1) throw new Error(`docs/format.md has no ${script}.`)
  return DOCUMENT.slice(begin + 1, DOCUMENT.indexOf('```', begin))
}
