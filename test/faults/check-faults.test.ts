import path from 'node:path'
import Database from 'better-sqlite3'
import { expect, test } from 'vitest'
import { noStrace, ProgramUnderStrace } from '../support/faults/strace.ts'
import { tempDirectory } from '../support/temp-directory.ts'

test.runIf(noStrace !== undefined)(`faults in a check were not tested: ${noStrace}`, () => {})

/** SQLite can take a page that it could not read for one that is damaged. */
test.skipIf(noStrace !== undefined).each([
  ['pread64', 4],
  ['pread64', 6],
  ['pread64', 9],
  ['access', 1],
])(
  'a database that can not be read is called neither damaged nor a bad backup (%s fails from the %ith on)',
  async (call, when) => {
    const root = tempDirectory('cellstore-check')
    const file = path.join(root, 'cell.db')
    const connection = new Database(file)
    connection.exec('CREATE TABLE t (a INTEGER PRIMARY KEY, b); CREATE INDEX i ON t (b)')
    for (let i = 0; i < 200; i++) connection.prepare('INSERT INTO t (b) VALUES (randomblob(500))').run()
    connection.close()
    const injection = { call, fault: 'EIO', when, forEver: true }
    const trace = { output: path.join(root, 'trace'), calls: [call], paths: [file, root], injection }
    const { lines } = await ProgramUnderStrace.run('check-program.ts', [file], trace)
    for (const line of lines)
      expect(line).toMatch(/^(EIO|SQLITE_IOERR|Cannot open database because the directory)/)
    expect(lines).toHaveLength(2)
  },
)
