import fs from 'node:fs'
import path from 'node:path'
import { expect, test } from 'vitest'
import { PROJECT } from '../support/package/run.ts'

const page = read('docs/store.md')
/** TypeScript checks its lists against the interfaces of the options. */
const source = read('src/store/option-checks.ts')

test.each([
  ['a store', '| Option |', 'STORE_NAMES'],
  ['backups', '| Of `backups` |', 'BACKUP_NAMES'],
])('docs/store.md has every option of %s, and no other', (_, header, list) => {
  const rows = page.slice(page.indexOf(header)).split('\n\n')[0]?.split('\n').slice(2) ?? []
  const named = rows.flatMap((row) => (row.split('|')[1] ?? '').match(/\w+/g) ?? [])
  const known = new RegExp(`const ${list}[^{]*\\{([^}]*)\\}`).exec(source)?.[1]?.match(/\w+(?=: true)/g)
  expect(named.sort()).toEqual(known?.sort())
})

function read(file: string): string {
  return fs.readFileSync(path.join(PROJECT, file), 'utf8')
}
