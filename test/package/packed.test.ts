import { execFileSync } from 'node:child_process'
import fs from 'node:fs'
import path from 'node:path'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import packageJson from '../../package.json' with { type: 'json' }
import { isSupportedNode } from '../../src/base/machine/runtime.ts'
import { Workplace } from '../support/cli/workplace.ts'
import { EmptyProject } from '../support/package/empty-project.ts'
import { blocksOf } from '../support/package/page-programs.ts'
import { PROJECT, run } from '../support/package/run.ts'

/** The frameworks that the examples wrap the handler in, and the types that a TypeScript user of them has. */
const FRAMEWORKS = ['hono', '@hono/node-server', 'express', '@types/express', '@types/node'] as const
/** One example a way of wrapping; more may come, and each is run. */
const EXAMPLES_REQUIRED = ['express', 'hono', 'node-http']
const ADAPTERS = ['drizzle', 'keyv', 'kysely', 'unstorage']
/** Of the adapters: whoever imports one has its peer. */
const PEERS = Object.keys(packageJson.peerDependencies) as (keyof typeof packageJson.peerDependencies)[]
const EXAMPLE_TIMEOUT_MS = 60_000
const INSTALL_TIMEOUT_MS = 300_000

const CRASH_OUTCOME = 'cellstore needs Node.js 22.15 or newer'

/** The system's own Node, where it is too old for us: a clone's npm scripts never meet it, an embedder's program does. */
const OLD_NODE = oldNode()

const project = new EmptyProject()
beforeAll(() => project.packAndInstall(), INSTALL_TIMEOUT_MS)
afterAll(() => project.remove())

describe('the package', () => {
  test('holds the build, the documents and the license, and nothing of the workshop', () => {
    expect(project.packedFiles).toEqual(
      expect.arrayContaining([
        'dist/index.js',
        'dist/index.d.ts',
        'dist/client.js',
        'dist/client.d.ts',
        'dist/testing.js',
        'dist/testing.d.ts',
        ...ADAPTERS.flatMap((name) => [`dist/${name}.js`, `dist/${name}.d.ts`]),
        'dist/cellstore.js',
        'dist/restore-thread.js',
        'docs/errors.md',
        'README.md',
        'CHANGELOG.md',
        'LICENSE',
        'package.json',
      ]),
    )
    expect(project.packedFiles.filter((file) => /^(src|test|bench|scripts|examples|\.)/.test(file))).toEqual(
      [],
    )
  })

  test('holds the license of each package that is bundled into it', () => {
    const code = project.packedFiles.filter((file) => /^dist\/.*\.js$/.test(file))
    const origins = code.flatMap((file) => [
      ...project
        .read(`node_modules/cellstore/${file}`)
        .matchAll(/^\/\/ node_modules\/((?:@[^/\n]+\/)?[^/\n]+)\//gm),
    ])
    const bundled = [...new Set(origins.map(([, name]) => name))]
    expect(bundled).not.toEqual([])
    const licenses = bundled.map((name) => `dist/${name}.LICENSE.txt`)
    expect(project.packedFiles).toEqual(expect.arrayContaining(licenses))
  })

  test('has types that ask for no package without types', () => {
    const types = project.packedFiles.filter((file) => file.endsWith('.d.ts'))
    const specifiers = types.flatMap((file) => [
      ...project.read(`node_modules/cellstore/${file}`).matchAll(/(?:\bfrom\s+|\bimport\()['"]([^'"]+)['"]/g),
    ])
    const foreign = specifiers
      .map(([, specifier = '']) => specifier)
      .filter((name) => !/^(node:|\.)/.test(name) && !PEERS.some((peer) => name.startsWith(peer)))
    for (const name of foreign) {
      const manifest = JSON.parse(project.read(`node_modules/${name}/package.json`)) as Record<
        string,
        unknown
      >
      expect(manifest, `${name} in dist/*.d.ts`).toHaveProperty('types')
    }
  })

  test.each([
    ['cellstore', 'index'],
    ['cellstore/client', 'client'],
    ['cellstore/testing', 'testing'],
  ])('%s exports in its types the values that it has', exportsWhatItDeclares)

  test('can be required from CommonJS', async () => {
    project.write(
      'required.cjs',
      `const { CellStore } = require('cellstore')
      async function main() {
        const objectStore = 'file://${project.folder}/required-objects'
        const store = await CellStore.create('./required-data', { objectStore })
        const cell = store.createCell()
        cell.kv.put('a', 'b')
        const { version } = await store.backups.snapshot(cell.id)
        cell.kv.delete('a')
        await store.backups.restore(cell.id, { version })
        console.log(cell.kv.get('a'))
        await store.close()
      }
      main()`,
    )
    const { code, stdout, stderr } = await run(process.execPath, ['required.cjs'], { cwd: project.folder })
    expect({ code, stdout, stderr }).toEqual({ code: 0, stdout: 'b\n', stderr: '' })
  })

  test('brings the command', async () => {
    const command = path.join(project.folder, 'node_modules', '.bin', 'cellstore')
    const env = { PATH: `${path.dirname(process.execPath)}${path.delimiter}${process.env['PATH']}` }
    const { code, stdout, stderr } = await run(command, ['--version'], { cwd: project.folder, env })
    expect({ code, stdout: stdout.trim(), stderr }).toEqual({
      code: 0,
      stdout: packageJson.version,
      stderr: '',
    })
  })
})

describe('the adapters, with their peers', () => {
  beforeAll(() => project.addDevDependencies(PEERS), INSTALL_TIMEOUT_MS)

  test.each(ADAPTERS.map((name) => [`cellstore/${name}`, name]))(
    '%s exports in its types the values that it has',
    exportsWhatItDeclares,
  )
})

describe('a store of the installed package', () => {
  test('restores a cell that is large enough for a thread of its own', async () => {
    project.write(
      'restore.mjs',
      `import { CellStore } from 'cellstore'
      const store = await CellStore.create('./restore-data', { objectStore: 'file://${project.folder}/restore-objects' })
      const cell = store.createCell()
      cell.sql('CREATE TABLE t (payload BLOB)')
      cell.sql('INSERT INTO t VALUES (randomblob(6000000))')
      const { version } = await store.backups.snapshot(cell.id)
      cell.sql('DELETE FROM t')
      await store.backups.restore(cell.id, { version })
      console.log(cell.sql('SELECT length(payload) AS n FROM t').rows[0].n)
      await store.close()`,
    )
    const { code, stdout, stderr } = await run(process.execPath, ['restore.mjs'], { cwd: project.folder })
    expect({ code, stdout, stderr }).toEqual({ code: 0, stdout: '6000000\n', stderr: '' })
  })
})

describe('docs/testing.md', () => {
  test('has a test file that runs as it stands', async () => {
    project.write('recipe.test.ts', blocksOf('docs/testing.md')[0] as string)
    const { code, stdout } = await run(process.execPath, ['--test', 'recipe.test.ts'], {
      cwd: project.folder,
    })
    expect({ code, stdout }).toEqual({ code: 0, stdout: expect.stringMatching(/pass 3\n/) })
  })
})

describe('the README', () => {
  const [library = '', handler = '', client = ''] = blocksOf('README.md')

  test.each([
    ['library', library, /Ann/],
    ['handler', handler, /^201\n$/],
  ])('has an example of the %s that runs as it stands', async (name, text, prints) => {
    const file = `readme-${name}.ts`
    project.write(file, text)
    const { code, signal, stdout, stderr } = await run(process.execPath, [file], { cwd: project.folder })
    expect({ code, signal, stdout, stderr }).toEqual({
      ...{ code: 0, signal: null, stderr: '' },
      stdout: expect.stringMatching(prints),
    })
  })

  test('has an example of the client that runs against a node', async () => {
    const node = await new Workplace().serve()
    expect(client).toContain('http://127.0.0.1:8787')
    project.write('readme-client.ts', client.replace('http://127.0.0.1:8787', node.address))
    const { code, stdout, stderr } = await run(process.execPath, ['readme-client.ts'], {
      cwd: project.folder,
      env: { KEY: node.key },
    })
    expect({ code, stdout, stderr }).toEqual({ code: 0, stdout: '[]\n', stderr: '' })
  })

  test('has fewer than 1,400 words', () => {
    const words = fs.readFileSync(path.join(PROJECT, 'README.md'), 'utf8').split(/\s+/)
    expect(words.length).toBeLessThan(1_400)
  })
})

describe('the examples', () => {
  const folder = path.join(PROJECT, 'examples')
  const examples = fs.globSync('*.{ts,mts,js,mjs}', { cwd: folder })

  beforeAll(() => project.addDevDependencies(FRAMEWORKS), INSTALL_TIMEOUT_MS)

  test('are there for each way of wrapping the handler', () => {
    expect(examples.map((file) => path.parse(file).name)).toEqual(expect.arrayContaining(EXAMPLES_REQUIRED))
  })

  test.each(examples)(
    '%s runs as it stands and ends in ok',
    async (example) => {
      project.write(example, fs.readFileSync(path.join(folder, example), 'utf8'))
      const options = { cwd: project.folder, timeoutMs: EXAMPLE_TIMEOUT_MS }
      const { code, signal, stdout, stderr } = await run(process.execPath, [example], options)
      const last = stdout.trimEnd().split('\n').at(-1)
      expect({ code, signal, last, stderr }).toEqual({ code: 0, signal: null, last: 'ok', stderr: '' })
    },
    EXAMPLE_TIMEOUT_MS + 10_000,
  )

  test('and the README’s examples and a CommonJS file fit the packed types', async () => {
    const compilerOptions = {
      ...{ target: 'es2023', module: 'nodenext', strict: true, exactOptionalPropertyTypes: true },
      ...{ noEmit: true, skipLibCheck: true, types: ['node'] },
    }
    project.write(
      'required.cts',
      `import cellstore = require('cellstore')
      export const titles = (cell: cellstore.Cell) => cell.sql<{ title: string }>('SELECT title FROM t').rows`,
    )
    project.write('tsconfig.json', JSON.stringify({ compilerOptions, include: ['*.ts', '*.mts', '*.cts'] }))
    const tsc = path.join(PROJECT, 'node_modules', 'typescript', 'bin', 'tsc')
    const { code, stdout } = await run(process.execPath, [tsc], { cwd: project.folder })
    expect({ code, stdout }).toEqual({ code: 0, stdout: '' })
  })
})

describe.skipIf(OLD_NODE === undefined)('on a Node that is too old', () => {
  const onOldNode = (args: string[]) => run(OLD_NODE as string, args, { cwd: project.folder })

  test('the library says so in an error', async () => {
    project.write(
      'old-node.mjs',
      `import { CellStore } from 'cellstore'
      await CellStore.create('./old-node-data', { objectStore: 'file://${project.folder}/old-node-objects' })`,
    )
    const { code, signal, stderr } = await onOldNode(['old-node.mjs'])
    expect({ code, signal }).toEqual({ code: 1, signal: null })
    expect(stderr).toContain(`CellError: ${CRASH_OUTCOME}`)
    expect(stderr).toContain("code: 'unsupported_runtime'")
    expect(fs.existsSync(path.join(project.folder, 'old-node-data'))).toBe(false)
  })

  test.each([['--help'], ['serve'], ['keys', 'list', '--json']])(
    'the command says so: %s',
    async (...args) => {
      const outcome = await onOldNode(['node_modules/cellstore/dist/cellstore.js', ...args])
      expect(outcome).toMatchObject({ code: 1, signal: null, stdout: '' })
      expect(outcome.stderr).toMatch(new RegExp(`^${CRASH_OUTCOME}.*\n$`))
    },
  )
})

async function exportsWhatItDeclares(name: string, file: string): Promise<void> {
  const types = project.read(`node_modules/cellstore/dist/${file}.d.ts`)
  const declared = [...types.matchAll(/^export \{([^}]*)\}/gm)]
    .flatMap(([, names = '']) => names.split(',').map((name) => name.trim().replace(/^.* as /, '')))
    .filter((name) => name !== '' && !name.startsWith('type '))
  const program = `console.log(JSON.stringify(Object.keys(await import('${name}'))))`
  const args = ['--input-type=module', '-e', program]
  const { stdout, stderr } = await run(process.execPath, args, { cwd: project.folder })
  expect(stderr).toBe('')
  expect(declared).not.toEqual([])
  expect(declared.sort()).toEqual((JSON.parse(stdout) as string[]).sort())
}

function oldNode(): string | undefined {
  const node = '/usr/bin/node'
  if (!fs.existsSync(node)) return undefined
  const version = execFileSync(node, ['-p', 'process.versions.node'], { encoding: 'utf8' }).trim()
  return isSupportedNode(version) ? undefined : node
}
