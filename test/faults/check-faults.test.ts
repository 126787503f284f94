import path from 'node:path'
import Database from 'better-sqlite3'
import { expect, test, vi } from 'vitest'
import { tempDirectory } from '../fixtures/temp-directory.ts'
import { noStrace, ProgramUnderStrace } from './support/strace.ts'

vi.setConfig({ testTimeout: 60_000 })

test.runIf(noStrace !== undefined)(`faults in a check were not tested: ${noStrace}`, () => {})

/** SQLite can take a page that it could not read for one that is damaged. */
test.skipIf(noStrace !== undefined).each([4, 6, 9])(
  'a database that can not be read is called neither damaged nor a bad backup (reads fail from the %ith on)',
  async (when) => {
    const root = tempDirectory('cellstore-check')
    const file = path.join(root, 'cell.db')
    const connection = new Database(file)
    connection.exec('CREATE TABLE t (a INTEGER PRIMARY KEY, b); CREATE INDEX i ON t (b)')
    for (let i = 0; i < 200; i++) connection.prepare('INSERT INTO t (b) VALUES (randomblob(500))').run()
    connection.close()
    const injection = { call: 'pread64', fault: 'EIO', when, forEver: true }
    const trace = { output: path.join(root, 'trace'), calls: ['pread64'], paths: [file], injection }
    const { lines } = await ProgramUnderStrace.run('check-program.ts', [file], trace)
    for (const line of lines) expect(line).toMatch(/^(EIO|SQLITE_IOERR)/)
    expect(lines).toHaveLength(2)
  },
)
