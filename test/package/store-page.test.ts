import fs from 'node:fs'
import path from 'node:path'
import { expect, test } from 'vitest'
import { STORE } from '../../src/store/settings/option-checks.ts'
import { PROJECT } from '../support/package/run.ts'

const page = read('docs/store.md')

test.each([
  ['a store', '| Option |', STORE],
  ['backups', '| Of `backups` |', STORE.backups.shape ?? {}],
])('docs/store.md has every option of %s, and no other', (_, header, shape) => {
  const rows = page.slice(page.indexOf(header)).split('\n\n')[0]?.split('\n').slice(2) ?? []
  const named = rows.flatMap((row) => (row.split('|')[1] ?? '').match(/\w+/g) ?? [])
  // What a node of a cluster passes to its store is no option of the library.
  const options = Object.keys(shape).filter((name) => name !== 'ownership')
  expect(named.sort()).toEqual(options.sort())
})

function read(file: string): string {
  return fs.readFileSync(path.join(PROJECT, file), 'utf8')
}
