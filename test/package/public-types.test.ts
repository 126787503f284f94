import fs from 'node:fs'
import path from 'node:path'
import { beforeAll, describe, expect, test } from 'vitest'
import { unnameableTypes } from '../support/package/declarations.ts'
import { PROJECT, run } from '../support/package/run.ts'

const BUILD_TIMEOUT_MS = 180_000

beforeAll(async () => {
  const build = { cwd: PROJECT, timeoutMs: BUILD_TIMEOUT_MS }
  const { code, stderr } = await run(process.execPath, ['scripts/build-if-needed.mjs'], build)
  expect({ code, stderr }).toMatchObject({ code: 0 })
}, BUILD_TIMEOUT_MS)

/** Of the computation of the client's arguments: nobody names them. */
const STEPS = [
  'Free',
  'FreeNames',
  'Given',
  'Sure',
  'SureValue',
  'NamesOf',
  'ValueOf',
  'ElementOf',
  'Unknown',
].concat(...['MAY_BE_UNDEFINED', 'NEW_NAME'])

const ENTRIES = ['index', 'client', 'testing', 'drizzle', 'keyv', 'kysely', 'unstorage']

test.each(ENTRIES)('every type that the exports of %s mention can be imported', (entry) => {
  const types = fs.readFileSync(path.join(PROJECT, 'dist', `${entry}.d.ts`), 'utf8')
  const unnamed = unnameableTypes(types).filter((line) => !STEPS.includes(line.split(',')[0] ?? ''))
  expect(unnamed).toEqual([])
})

/** What only a reader of the repository could follow: its invariants and decisions, its sources and its tests. */
const INTERNALS = /\b(?:invariant|decision) \d+|[\w-]+\.ts\b|\b(?:src|test)\/\w/

test.each(ENTRIES)('no docstring of %s points into the repository', (entry) => {
  const types = fs.readFileSync(path.join(PROJECT, 'dist', `${entry}.d.ts`), 'utf8')
  const lines = types.split('\n').filter((line) => /^\s*(\/\*)?\*/.test(line) && INTERNALS.test(line))
  expect(lines).toEqual([])
})

describe('a type that can not be imported is found', () => {
  const HIDDEN = 'interface Hidden { deeper: Deeper }\ntype Deeper = string'

  test.each([
    ['a parameter', 'declare function f(options: Hidden): void'],
    ['a result', 'declare class f { get(): Promise<Hidden[]> }'],
    ['a member', 'interface f { option?: Hidden | undefined }'],
    ['a base class', 'declare class Hidden { deeper: Deeper }\ndeclare class f extends Hidden {}'],
    ['a constraint', 'interface f { run<T extends Hidden>(work: T): T }'],
    ['a constant’s type', 'declare const f: Hidden'],
    ['the type of a constant', 'declare const Hidden: Deeper\ntype f = keyof typeof Hidden'],
  ])('in %s', (_, declaration) => {
    const text =
      declaration.includes('const Hidden') || declaration.includes('class Hidden')
        ? 'type Deeper = string'
        : HIDDEN
    expect(unnameableTypes(`${text}\n${declaration}\nexport { f }`)).toEqual([
      'Hidden, by f',
      'Deeper, by Hidden',
    ])
  })

  test('and one that no export mentions is not', () => {
    expect(unnameableTypes(`${HIDDEN}\ndeclare function f(): Date\nexport { f as g }`)).toEqual([])
  })
})
