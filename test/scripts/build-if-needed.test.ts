import fs from 'node:fs'
import os from 'node:os'
import path from 'node:path'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { PROJECT, run } from '../support/package/run.ts'

/** In the bundler's place, where a test is not about what it makes: it takes seconds for each build. */
const QUICK_BUNDLER = `
  import fs from 'node:fs'
  const folder = process.argv[process.argv.indexOf('--out-dir') + 1]
  const source = fs.readFileSync('src/index.ts', 'utf8')
  fs.mkdirSync(folder, { recursive: true })
  const typed = ['index', 'client', 'testing', 'drizzle', 'keyv', 'kysely', 'unstorage']
  for (const name of [...typed, 'cellstore']) fs.writeFileSync(folder + '/' + name + '.js', source)
  for (const name of typed) fs.writeFileSync(folder + '/' + name + '.d.ts', '')
`

// A small project of its own: the real one's dist/ is in use by other tests.
let project: string
beforeEach(() => {
  project = fs.mkdtempSync(path.join(os.tmpdir(), 'cellstore-build-'))
  for (const file of ['package.json', 'tsup.config.ts', 'tsconfig.json', 'scripts/build-if-needed.mjs']) {
    write(file, fs.readFileSync(path.join(PROJECT, file), 'utf8'))
  }
  // The packages are shared and the folder is its own: the build's lock lies in it.
  for (const name of fs.readdirSync(path.join(PROJECT, 'node_modules'))) {
    if (name.startsWith('.') && name !== '.bin') continue
    fs.mkdirSync(path.join(project, 'node_modules'), { recursive: true })
    fs.symlinkSync(path.join(PROJECT, 'node_modules', name), path.join(project, 'node_modules', name))
  }
  for (const entry of builtFromSrc()) write(entry, 'export const a = 1\n')
  fs.rmSync(path.join(project, 'node_modules/tsup'))
  write('node_modules/tsup/dist/cli-default.js', QUICK_BUNDLER)
  write('node_modules/tsup/package.json', '{ "type": "module" }')
})
afterEach(() => fs.rmSync(project, { recursive: true, force: true }))

const BUILT = 'cellstore: building dist/\n'

/** Puts the real bundler in its place again. */
function withBundler(): void {
  fs.rmSync(path.join(project, 'node_modules/tsup'), { recursive: true })
  fs.symlinkSync(path.join(PROJECT, 'node_modules/tsup'), path.join(project, 'node_modules/tsup'))
}

test('the bundler makes all that a build has to hold', async () => {
  withBundler()
  expect(await build()).toEqual({ code: 0, stderr: BUILT })
  expect(await build()).toEqual({ code: 0, stderr: '' })
  expect(fs.readFileSync(path.join(project, 'dist/index.js'), 'utf8')).toContain('a = 1')
})

test('builds what is missing or older than its sources, and is silent otherwise', async () => {
  expect(await build()).toEqual({ code: 0, stderr: BUILT })
  expect(await build()).toEqual({ code: 0, stderr: '' })

  write('src/index.ts', 'export const a = 2\n')
  expect(await build()).toEqual({ code: 0, stderr: BUILT })
  expect(fs.readFileSync(path.join(project, 'dist/index.js'), 'utf8')).toContain('a = 2')

  fs.rmSync(path.join(project, 'dist/index.d.ts'))
  expect(await build()).toEqual({ code: 0, stderr: BUILT })
  write('src/gone.ts', '')
  await build()
  fs.rmSync(path.join(project, 'src/gone.ts'))
  expect(await build()).toEqual({ code: 0, stderr: BUILT })
  expect(await build('--force')).toEqual({ code: 0, stderr: BUILT })
})

test('a build that fails says why, and leaves the dist/ there was', async () => {
  await build()
  const before = fs.readdirSync(path.join(project, 'dist'))
  withBundler()
  write('src/index.ts', 'export const a = (\n')
  const { code, stderr } = await build()
  expect(code).toBe(1)
  expect(stderr).toMatch(/src\/index\.ts:\d+.*\n(.*\n)*cellstore: The build failed\.\n$/)
  expect(fs.readdirSync(path.join(project, 'dist'))).toEqual(before)
  expect(leftovers()).toEqual([])
})

test('two at once: one builds, the other waits for it, and both find a whole dist/', async () => {
  const outcomes = await Promise.all([build(), build()])
  expect(outcomes.map(({ code }) => code)).toEqual([0, 0])
  expect(outcomes.map(({ stderr }) => stderr).sort()).toEqual(['', BUILT])
  expect(leftovers()).toEqual([])
})

test('two forced at once: the later one takes the place of the first, whole', async () => {
  const outcomes = await Promise.all([build('--force'), build('--force')])
  expect(outcomes).toEqual([
    { code: 0, stderr: BUILT },
    { code: 0, stderr: BUILT },
  ])
  expect(await build()).toEqual({ code: 0, stderr: '' })
  expect(leftovers()).toEqual([])
})

test('a lock whose process is gone is no obstacle', async () => {
  write('node_modules/.cellstore-build.lock', String(await deadPid()))
  write(`dist.build-${await deadPid()}/index.js`, '')
  expect(await build()).toEqual({ code: 0, stderr: BUILT })
  expect(leftovers()).toEqual([])
})

test('without the development dependencies it says what to do', async () => {
  fs.rmSync(path.join(project, 'node_modules/tsup'), { recursive: true })
  const { code, stderr } = await build()
  expect(code).toBe(1)
  expect(stderr).toMatch(/^cellstore: .*npm ci.*\n$/)
})

async function build(...args: string[]): Promise<{ code: number | null; stderr: string }> {
  const { code, stderr } = await run('node', ['scripts/build-if-needed.mjs', ...args], { cwd: project })
  return { code, stderr }
}

function write(file: string, text: string): void {
  fs.mkdirSync(path.dirname(path.join(project, file)), { recursive: true })
  fs.writeFileSync(path.join(project, file), text)
}

/** The source files that tsup.config.ts names. */
function builtFromSrc(): string[] {
  const config = fs.readFileSync(path.join(PROJECT, 'tsup.config.ts'), 'utf8')
  return [...new Set([...config.matchAll(/'(src\/[^']+)'/g)].map(([, file = '']) => file))]
}

function leftovers(): string[] {
  const lock = fs.readdirSync(path.join(project, 'node_modules')).filter((name) => name.endsWith('.lock'))
  return [...fs.readdirSync(project).filter((name) => name.startsWith('dist.')), ...lock]
}

async function deadPid(): Promise<number> {
  const { stdout } = await run(process.execPath, ['-p', 'process.pid'], { cwd: project })
  return Number(stdout)
}
