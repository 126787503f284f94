import fs from 'node:fs'
import path from 'node:path'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { LinkedProject } from '../support/package/linked-project.ts'
import { type PageProgram, programsOf } from '../support/package/page-programs.ts'

const BUILD_TIMEOUT_MS = 200_000
const PAGES = ['docs/recipes.md', 'docs/adapters.md', 'docs/kv.md', 'docs/store.md']
/** What the recipe for a bundle uses besides: esbuild comes with tsup. */
const BUNDLE_PACKAGES = ['better-sqlite3', 'esbuild']
const ADAPTED = ['drizzle-orm', 'express', 'express-session', 'keyv', 'kysely', 'unstorage']
const TYPES = ['@types/express', '@types/express-session', '@types/node']
const PACKAGES = [...BUNDLE_PACKAGES, 'sqlite-vec', ...ADAPTED, ...TYPES]

const project = new LinkedProject(PACKAGES)
beforeAll(() => LinkedProject.build(), BUILD_TIMEOUT_MS)
afterAll(() => project.remove())

const programs = PAGES.flatMap((page) => programsOf(page).map((program) => ({ page, ...program })))
const named = (file: string) => programs.find((program) => program.file === file) as PageProgram
/** Two files make this recipe, and it has a test of its own. */
const BUNDLE = ['build.mjs', 'app.js']
const alone = programs.filter(({ file }) => !BUNDLE.includes(file))

/** A folder of its own for each: each makes its store in ./data. */
function place({ file, text }: PageProgram): string {
  const below = path.parse(file).name
  project.write(path.join(below, file), text)
  return below
}

describe.each(alone)('$page: $file', (program) => {
  test('runs as it stands, and prints what its comments say', async () => {
    const isTest = program.file.endsWith('.test.ts')
    const args = isTest ? ['--test', program.file] : [program.file]
    const { code, signal, stdout, stderr } = await project.node(args, { below: place(program) })
    expect({ code, signal, stderr }).toEqual({ code: 0, signal: null, stderr: '' })
    if (isTest) expect(stdout).toMatch(/pass [1-9]/)
    else expect(stdout.trimEnd().split('\n')).toEqual(program.prints)
  })
})

test('every program on the pages that prints says what', () => {
  const silent = programs.filter(
    ({ text, prints }) => text.split('console.log(').length - 1 !== prints.length,
  )
  expect(silent.map(({ file }) => file)).toEqual([])
  expect(programs.length).toBeGreaterThan(8)
})

test('the types of all programs on the pages are right', async () => {
  for (const program of alone) place(program)
  const { code, stdout } = await project.checkTypes(['*/*.ts'])
  expect({ code, stdout }).toEqual({ code: 0, stdout: '' })
})

test('a bundle of the recipe runs where only better-sqlite3 is installed, threads included; and one that lacks the file of its threads says so at the start', async () => {
  for (const file of BUNDLE) project.write(file, named(file).text)
  const built = await project.node(['build.mjs'])
  expect(built).toMatchObject({ code: 0 })

  const elsewhere = new LinkedProject(['better-sqlite3'])
  try {
    fs.rmSync(path.join(elsewhere.folder, 'node_modules', 'cellstore'))
    fs.cpSync(path.join(project.folder, 'bundle'), path.join(elsewhere.folder, 'bundle'), { recursive: true })
    const { code, stdout, stderr } = await elsewhere.node(['bundle/app.js'])
    expect({ code, stdout, stderr }).toEqual({
      code: 0,
      stdout: `${named('app.js').prints.join('\n')}\n`,
      stderr: '',
    })
    fs.rmSync(path.join(elsewhere.folder, 'bundle', 'restore-thread.js'))
    fs.rmSync(path.join(elsewhere.folder, 'data'), { recursive: true })
    const without = await elsewhere.node(['bundle/app.js'])
    expect(without.code).toBe(1)
    expect(without.stderr).toMatch(
      /CellError: Backups need cellstore's file \S+bundle\/restore-thread.js, and it is not there/,
    )
  } finally {
    elsewhere.remove()
  }
})
