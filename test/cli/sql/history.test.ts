import fs from 'node:fs'
import path from 'node:path'
import { expect, test } from 'vitest'
import { History } from '../../../src/cli/sql/history.ts'
import { tempDirectory } from '../../support/temp-directory.ts'

test('the history comes back newest first, in a file for its owner alone', () => {
  const home = tempDirectory()
  const history = History.of({}, home)
  expect(history.load()).toEqual([])
  history.add('SELECT 1;')
  history.add('  ')
  history.add('SELECT 2;')
  expect(History.of({}, home).load()).toEqual(['SELECT 2;', 'SELECT 1;'])
  expect(fs.statSync(path.join(home, '.cellstore_history')).mode & 0o777).toBe(0o600)
})

test('a file that others could read becomes private', () => {
  const file = path.join(tempDirectory(), 'history')
  fs.writeFileSync(file, 'SELECT 1;\n')
  fs.chmodSync(file, 0o644)
  const history = History.of({ CELLSTORE_HISTORY: file })
  history.add('SELECT 2;')
  expect(history.load()).toEqual(['SELECT 2;', 'SELECT 1;'])
  expect(fs.statSync(file).mode & 0o777).toBe(0o600)
})

test('an empty variable means no history', () => {
  const home = tempDirectory()
  const history = History.of({ CELLSTORE_HISTORY: '' }, home)
  history.add('SELECT 1;')
  expect(history.load()).toEqual([])
  expect(fs.readdirSync(home)).toEqual([])
})

test('a long file is shortened to its newest lines', () => {
  const file = path.join(tempDirectory(), 'history')
  const lines = Array.from({ length: 2_001 }, (_, i) => `SELECT ${i};`)
  fs.writeFileSync(file, `${lines.join('\n')}\n`)
  expect(new History(file).load()).toHaveLength(1_000)
  expect(fs.readFileSync(file, 'utf8')).toBe(`${lines.slice(-1_000).join('\n')}\n`)
})

test('a home that cannot be written to costs nothing but the history', () => {
  const history = new History(path.join(tempDirectory(), 'missing', 'history'))
  history.add('SELECT 1;')
  expect(history.load()).toEqual([])
})
