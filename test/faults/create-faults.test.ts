import fs from 'node:fs'
import path from 'node:path'
import { expect, test } from 'vitest'
import { creationOf } from '../support/faults/creation.ts'
import { type Injection, noStrace, ProgramUnderStrace } from '../support/faults/strace.ts'
import { StoreDirectory } from '../support/store-directory.ts'
import { tempDirectory } from '../support/temp-directory.ts'

const CELLS = 3

test.runIf(noStrace !== undefined)(`faults in a creation were not tested: ${noStrace}`, () => {})

/** A commit whose fsync failed was refused, and may be in the log all the same: what is found there must be usable. */
const INJECTIONS: Injection[] = [
  { call: 'fsync', fault: 'EIO', when: 1 },
  { call: 'fsync', fault: 'EIO', when: 2 },
  { call: 'fsync', fault: 'EIO', when: 3 },
  { call: 'fsync', fault: 'SIGKILL', when: 2 },
  { call: 'pwrite64', fault: 'EIO', when: 2 },
  { call: 'pwrite64', fault: 'ENOSPC', when: 4 },
]
const CASES = INJECTIONS.flatMap((injection) => [
  { ...injection, how: 'createCell' },
  { ...injection, how: 'addCell' },
])

test.skipIf(noStrace !== undefined).each(CASES)(
  'a cell whose creation failed in the catalog ($how, $call $when, $fault) is made by the client’s next try, and every cell that is listed can be used (invariant 14)',
  async ({ how, ...injection }) => {
    const root = tempDirectory('cellstore-creation')
    const directory = path.join(root, 'data')
    const data = new StoreDirectory(directory)
    const account = await data.use(data.create(), (store) => store.accounts.create())
    const trace = {
      output: path.join(root, 'trace'),
      calls: [injection.call],
      paths: [`${data.paths.catalog}-wal`],
      injection,
    }
    const args = [directory, account.id, String(CELLS), how]
    const { lines } = await ProgramUnderStrace.run('create-program.ts', args, trace)
    expect(fs.readFileSync(trace.output, 'utf8')).toContain(
      injection.fault === 'SIGKILL' ? 'SIGKILL' : 'INJECTED',
    )

    const made = lines.filter((line) => line.startsWith('made')).map((line) => line.split(' ')[1])
    await data.use(data.open(), (store) => {
      const listed = () => store.cells().cells.map(({ id }) => id)
      expect(listed()).toEqual(expect.arrayContaining(made))
      for (let i = 0; i < CELLS; i++) store.createCell(creationOf(account.id, i)).kv.put('k', 'v')
      expect(listed()).toHaveLength(CELLS)
      for (const id of listed()) expect(store.openCell(id).kv.get('k')).toBe('v')
    })
  },
)
