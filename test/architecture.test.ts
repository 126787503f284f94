import { describe, expect, test } from 'vitest'
import packageJson from '../package.json' with { type: 'json' }
import { CellError, type CellErrorCode, ERROR_KINDS } from '../src/errors.ts'
import { problemResponse } from '../src/http/core/problem.ts'
import tsupConfig from '../tsup.config.ts'
import { longFiles, RULES } from './architecture/rules.ts'
import { parseSource, readProjectFile, readSources } from './architecture/source.ts'

const sources = readSources(['src', 'test', 'bench', 'scripts', 'examples'])

describe('the house rules', () => {
  test.each(RULES)('$name', ({ check }) => {
    expect(check(sources)).toEqual([])
  })

  test('files over 300 lines are listed, for a look', () => {
    const long = longFiles(sources)
    if (long.length > 0) console.info(`Is each of these still one concept?\n  ${long.join('\n  ')}`)
  })
})

/** For each rule, small projects: one line a file, `path: text`. Each of `bad` breaks the rule; all of `good` keep it. */
const EXAMPLES: Record<string, { bad: string[][]; good: string[] }> = {
  'a layer imports only the layers before it': {
    bad: [
      ["src/base/a.ts: import { b } from '../engine/b.ts'"],
      ["src/engine/a.ts: import { b } from '../catalog/b.ts'"],
      ["src/catalog/a.ts: import { b } from '../kv/b.ts'"],
      ["src/kv/a.ts: import type { B } from '../backup/b.ts'"],
      ["src/auth/a.ts: const b = await import('../kv/b.ts')"],
      ["src/backup/a.ts: export { b } from '../store/b.ts'"],
      ["src/store/a.ts: import { b } from '../service/pool.ts'"],
      ["src/service/a.ts: import type { B } from '../workers/b.ts'"],
      ["src/workers/a.ts: import { b } from '../http/b.ts'"],
      ["src/http/a.ts: import type { B } from '../workers/b.ts'"],
      ["src/http/a.ts: import { b } from '../cli/b.ts'"],
      ["src/http/a.ts: import { b } from '../metrics/b.ts'"],
      ["src/http/a.ts: import { b } from '../index.ts'"],
      ["src/index.ts: export { main } from './cli/main.ts'"],
      ["src/cli/a.ts: import { a } from '../console/a.ts'"],
      ["src/index.ts: export { a } from './adapters/a.ts'"],
      ["src/adapters/a.ts: import { a } from '../testing/a.ts'"],
      ["src/engine/a.ts: let b: import('../kv/b.ts').B"],
      ['src/misc/a.ts: export {}'],
      ['src/misc.ts: export {}'],
      ["src/kv/a.ts: import { a } from '../../test/a.ts'"],
    ],
    good: [
      "src/kv/a.ts: import { b } from '../engine/b.ts'; import { c } from './c.ts'; import { d } from '../errors.ts'",
      "src/store/a.ts: import { a } from './cell.ts'; import { b } from '../auth/b.ts'",
      "src/service/operations.ts: import type { A } from '../kv/a.ts'",
      "src/workers/node/a.ts: import type { A } from '../../service/a.ts'",
      "src/http/a.ts: import type { CellService } from '../service/cell-service.ts'",
      "src/cli/a.ts: import { a } from '../http/a.ts'; import { b } from '../store/b.ts'",
      "src/index.ts: export { a } from './http/a.ts'",
      "src/adapters/a.ts: import type { Cell } from '../index.ts'; import { b } from './b.ts'",
      "src/cli/b.ts: import packageJson from '../../package.json' with { type: 'json' }",
    ],
  },
  'inside a layer, a folder imports only the folders before it': {
    bad: [
      ["src/engine/sql-policy/a.ts: import { b } from '../sqlite.ts'"],
      ["src/backup/object-store/a.ts: import { b } from '../archive/b.ts'"],
      ["src/backup/archive/a.ts: import type { B } from '../restore/b.ts'"],
      ["src/backup/restore/a.ts: import type { B } from '../create/b.ts'"],
      ["src/backup/versions/a.ts: import type { B } from '../b.ts'"],
      ['src/backup/misc/a.ts: export {}'],
      ["src/workers/node/a.ts: import { b } from '../worker/b.ts'"],
      ["src/console/parts/a.ts: import { b } from '../pages/b.tsx'"],
    ],
    good: [
      "src/engine/statements/a.ts: import { b } from '../sqlite.ts'",
      "src/engine/b.ts: import { b } from './statements/a.ts'; import { c } from './sql-policy/c.ts'",
      "src/backup/restore/a.ts: import { b } from '../object-store/s3/b.ts'; import { c } from './c.ts'",
      "src/backup/a.ts: import { b } from './create/b.ts'",
      "src/workers/worker/a.ts: import { b } from '../protocol/b.ts'",
    ],
  },
  'errors.ts imports nothing': {
    bad: [["src/errors.ts: import fs from 'node:fs'"]],
    good: ['src/errors.ts: export const a = 1'],
  },
  'client/ runs in browsers: it imports nothing of Node.js, and of base/ only what does neither': {
    bad: [
      ["src/client/a.ts: import fs from 'node:fs'"],
      ["src/client/a.ts: import { b } from '../base/b.ts'"],
      ["src/client/a.ts: import type { CellError } from '../errors.ts'"],
    ],
    good: [
      "src/client/a.ts: import { b } from './b.ts'; import { nameMend } from '../base/options/known-names.ts'",
      "src/client/b.ts: import { createParser } from 'eventsource-parser'",
      "src/cli/a.ts: import fs from 'node:fs'",
    ],
  },
  'the console uses the public interface alone': {
    bad: [
      ["src/console/pages/a.tsx: import { b } from '../../http/b.ts'"],
      ["src/console/a.ts: import { b } from '../client/wait.ts'"],
      ["src/console/a.ts: import { CellError } from '../errors.ts'"],
    ],
    good: [
      "src/console/pages/a.tsx: import { b } from '../parts/b.tsx'; import { h } from 'preact'",
      "src/console/pages/c.ts: import { b } from '../../client/index.ts'",
      "src/console/pages/d.ts: import { b } from '../../engine/sql-policy/sql-script.ts'",
    ],
  },
  'no import cycles': {
    bad: [
      ["src/kv/a.ts: import { b } from './b.ts'", "src/kv/b.ts: import type { A } from './a.ts'"],
      ["src/kv/a.ts: import './b.ts'", "src/kv/b.ts: import './c.ts'", "src/kv/c.ts: export * from './a.ts'"],
    ],
    good: [
      "src/kv/a.ts: import './b.ts'; import './c.ts'",
      "src/kv/b.ts: import './c.ts'",
      'src/kv/c.ts: export {}',
    ],
  },
  'relative imports name a file that exists, with its .ts': {
    bad: [["src/kv/a.ts: import './b.js'", 'src/kv/b.ts: export {}'], ["src/kv/a.ts: import './b'"]],
    good: ["src/kv/a.ts: import './b.ts'; import '../../package.json'", 'src/kv/b.ts: export {}'],
  },
  'the driver, the S3 client, the terminal packages and each adapter’s peer have one home each': {
    bad: [
      ["src/engine/a.ts: import type Database from 'better-sqlite3'"],
      ["src/backup/a.ts: import { S3Client } from '@aws-sdk/client-s3'"],
      ["src/store/cell-store.ts: const { Upload } = await import('@aws-sdk/lib-storage')"],
      ["src/http/a.ts: import { Command } from 'commander'"],
      ["src/store/a.ts: import { Counter } from 'prom-client'"],
      ["src/http/a.ts: import type { Registry } from 'prom-client'"],
      ["src/adapters/keyv.ts: import type { Driver } from 'unstorage'"],
      ["src/store/a.ts: import { eq } from 'drizzle-orm/sqlite-core'"],
    ],
    good: [
      "src/engine/sqlite.ts: import Database from 'better-sqlite3'",
      "src/backup/object-store/s3/s3-object-store.ts: import { S3Client } from '@aws-sdk/client-s3'",
      "src/cli/a.ts: import { Command } from 'commander'",
      "src/metrics/a.ts: import { Registry } from 'prom-client'",
      "src/adapters/drizzle.ts: import { drizzle } from 'drizzle-orm/durable-sqlite'",
      "src/adapters/kysely.ts: import { SqliteDialect } from 'kysely'",
    ],
  },
  'only http/ and client/ know Request and Response': {
    bad: [
      ['src/store/cell-store.ts: export const a = (request: Request) => request.url'],
      ['src/workers/a.ts: export const a = () => Response.json({})'],
      ['src/cli/a.ts: export const a = new globalThis.Request("x:")'],
    ],
    good: [
      'src/http/a.ts: export const a = (request: Request) => new Response(request.url)',
      'src/workers/a.ts: interface Request { id: number }; export const a = (request: Request) => request.id',
      'src/kv/a.ts: export const a = (b: { Request: number }) => b.Request // a Request',
    ],
  },
  'only backup/versions/object-keys.ts spells object keys': {
    bad: [
      ["src/backup/a.ts: export const a = (id: string) => 'snapshots/' + id"],
      [`src/backup/a.ts: export const a = (id: string) => \`snapshots/\${id}\``],
      ["src/http/a.ts: export const a = 'x/snapshots/'"],
      ['src/cli/a.ts: export const a = /^snapshots\\/(.*)$/'],
    ],
    good: [
      "src/backup/versions/object-keys.ts: export const a = 'snapshots/'",
      "src/http/a.ts: export const a = 'b' // snapshots/",
    ],
  },
  'time and chance come from the clock and node:crypto': {
    bad: [
      ['src/kv/a.ts: export const a = Date.now()'],
      ['src/kv/a.ts: export const a = new Date()'],
      ['src/kv/a.ts: export const a = Date()'],
      ['src/kv/a.ts: export const a = globalThis.Date.now'],
      ['src/workers/a.ts: setTimeout(() => {}, 1)'],
      ['src/workers/a.ts: globalThis.setInterval(() => {}, 1)'],
      ['src/workers/a.ts: export const a = AbortSignal.timeout(5)'],
      ['src/workers/a.ts: export const a = process.hrtime.bigint()'],
      ['src/auth/a.ts: export const a = Math.random()'],
      ['src/http/a.ts: export const a = performance.now()'],
      ["src/http/a.ts: import { setTimeout } from 'node:timers/promises'"],
      // A turn of the event loop is no time, but fake timers would stop it.
      ["src/http/a.ts: import { setImmediate } from 'node:timers/promises'"],
      ['src/http/a.ts: setImmediate(() => {})'],
      ["src/http/a.ts: import * as timers from 'node:timers'"],
    ],
    good: [
      'src/base/clock.ts: export const a = Date.now() + performance.now(); setTimeout(() => {}, 1)',
      'src/cli/a.ts: export const a = Date.now()',
      'src/kv/a.ts: export const a = (ms: number, b: Date): string => new Date(ms).toISOString() // Date.now()',
      'src/kv/b.ts: export const a = (clock: { now(): number }) => clock.now()',
      "src/kv/c.ts: import { setImmediate } from '../base/clock.ts'; setImmediate(() => {})",
    ],
  },
  'what may come of another realm is asked for in base/any-realm.ts: a test runner has one of its own': {
    bad: [
      ['src/http/a.ts: export const a = (b: unknown) => b instanceof Error'],
      ['src/backup/a.ts: export const a = (b: unknown) => !(b instanceof Uint8Array)'],
    ],
    good: [
      'src/base/any-realm.ts: export const a = (b: unknown) => b instanceof Error',
      'src/cli/a.ts: export const a = (b: unknown) => b instanceof Error',
      'src/http/a.ts: class Gone extends Error {}; export const a = (b: unknown) => b instanceof Gone',
      "src/http/b.ts: export const a = (b: Error) => new Error('c', { cause: b })",
    ],
  },
  'only the command writes to the console': {
    bad: [['src/http/a.ts: console.log(1)'], ['src/store/cell-store.ts: export const a = console']],
    good: ['src/cli/a.ts: console.log(1)'],
  },
  'no named import that would break linking on an old Node': {
    bad: [
      ["src/backup/a.ts: import { constants, createZstdCompress } from 'node:zlib'"],
      ["src/backup/a.ts: export { zstdCompressSync as a } from 'node:zlib'"],
      ["src/engine/a.ts: import { DatabaseSync } from 'node:sqlite'"],
      ["src/auth/a.ts: import { crc32 } from 'node:zlib'"],
      ["src/http/a.ts: import { glob } from 'node:fs/promises'"],
    ],
    good: [
      "src/backup/a.ts: import zlib, { createGzip, type ZstdOptions } from 'node:zlib'; zlib.createZstdCompress()",
      "src/cli/a.ts: import { styleText } from 'node:util'",
      "src/backup/b.ts: import type { ZstdCompress } from 'node:zlib'",
    ],
  },
  'index.ts has explicit named exports and nothing else': {
    bad: [
      ["src/index.ts: export * from './store.ts'"],
      ["src/index.ts: export * as store from './store.ts'"],
      ["src/index.ts: export { CellStore as default } from './store.ts'"],
      ['src/index.ts: export const a = 1'],
      ["src/index.ts: import './store.ts'"],
    ],
    good: [
      "src/index.ts: export { CellStore, type CellStoreOptions } from './store.ts'; export type { A } from './cell.ts'",
    ],
  },
  'tests are written with test, not it': {
    bad: [
      ["test/kv/a.test.ts: import { expect, it } from 'vitest'"],
      ["test/kv/a.test.ts: import { it as test } from 'vitest'"],
    ],
    good: ["test/kv/a.test.ts: import { expect, test } from 'vitest'; const it = 1; test('a', () => it)"],
  },
  'tests are the same in every run: chance comes from test/support/seed.ts': {
    bad: [
      ['test/kv/a.test.ts: export const a = Math.random()'],
      ['test/kv/a.test.ts: fc.assert(fc.property(fc.string(), () => true))'],
      ['test/kv/a.test.ts: fc.assert(fc.property(fc.string(), () => true), { numRuns: 9 })'],
    ],
    good: [
      'test/kv/a.test.ts: fc.assert(fc.property(fc.string(), () => true), { numRuns: 9, seed: SEED })',
      'bench/a.ts: export const a = Math.random()',
    ],
  },
  'no file is over 500 lines': {
    bad: [[`src/kv/a.ts: ${'\n'.repeat(500)}export {}`]],
    good: [`src/kv/a.ts: ${'\n'.repeat(499)}export {}`],
  },
  'file and folder names are kebab-case': {
    bad: [
      ['src/kv/keyRules.ts: export {}'],
      ['src/kv/key_rules.ts: export {}'],
      ['test/Helpers/a.ts: export {}'],
    ],
    good: ['src/kv/key-rules.ts: export {}', 'test/types/public-api.test-d.ts: export {}'],
  },
  [`no TODO${'(now)'} and no FIX${'ME'}`]: {
    bad: [[`src/kv/a.ts: // TODO${'(now)'}: mend`], [`test/a.test.ts: // FIX${'ME'}`]],
    good: ['src/kv/a.ts: // TODO(someday): shorter'],
  },
}

describe('each house rule can fail', () => {
  const parse = (files: string[]) =>
    files.map((file) => {
      const end = file.indexOf(': ')
      return parseSource(file.slice(0, end), file.slice(end + 2))
    })

  test('every rule has examples', () => {
    expect(Object.keys(EXAMPLES).sort()).toEqual(RULES.map((rule) => rule.name).sort())
  })

  describe.each(RULES)('$name', ({ name, check }) => {
    const { bad, good } = EXAMPLES[name] ?? { bad: [], good: [] }

    test.each(bad)('refuses %s', (...files) => {
      expect(check(parse(files))).not.toEqual([])
    })

    test('takes what keeps it', () => {
      expect(check(parse(good))).toEqual([])
    })
  })
})

describe('the documents and the package keep up with the code', () => {
  test('docs/errors.md explains every error code, with its kind, and no other', () => {
    const documented = documentedCodes(readProjectFile('docs/errors.md'))
    expect(Object.fromEntries(documented.map(({ code, kind }) => [code, kind]))).toEqual(ERROR_KINDS)
  })

  test('docs/errors.md has the statuses that HTTP answers', () => {
    for (const { code, status } of documentedCodes(readProjectFile('docs/errors.md'))) {
      const response = problemResponse(new CellError(code as CellErrorCode, 'x'), 'request')
      const shownAs = (JSON.parse(String(response.body)) as { code: string }).code
      expect({ code, status }).toEqual({ code, status: shownAs === code ? String(response.status) : '–' })
    }
  })

  test('a code that is explained twice would be seen', () => {
    const row = (code: string) => `| \`${code}\` | absent | 404 | when | do |`
    expect(documentedCodes(`${row('a_b')}\n${row('c')}`)).toHaveLength(2)
    expect(() => documentedCodes(`${row('a_b')}\n${row('a_b')}`)).toThrow('twice')
  })

  test('package.json exports and bin are what tsup builds', () => {
    if (!Array.isArray(tsupConfig)) throw new Error('tsup.config.ts is a list of plain objects')
    const entries = tsupConfig.flatMap(({ entry }) => Object.entries(entry ?? {}))
    const built = new Map(entries.map(([name, source]) => [`./dist/${name}.js`, source]))
    const { './package.json': own, ...exported } = packageJson.exports
    expect(own).toBe('./package.json')

    const used = new Set<string>()
    for (const { default: file, types } of Object.values(exported)) {
      expect([...built.keys()]).toContain(file)
      expect(types).toBe(file.replace(/\.js$/, '.d.ts'))
      used.add(file)
    }
    for (const file of Object.values(packageJson.bin)) {
      expect([...built.keys()]).toContain(file)
      used.add(file)
    }
    // The rest are files that the package starts as child processes or threads, or in a browser.
    for (const [file, source] of built) if (!used.has(file)) expect(source).toMatch(/-main\.tsx?$/)
  })
})

/** The rows of the tables: code, kind, status, when, what to do. */
function documentedCodes(markdown: string): { code: string; kind: string; status: string }[] {
  const rows = /^\| `([a-z_]+)` \| (\w+) \| (\d{3}|–) \| \S.* \| \S.* \|$/gm
  const codes = [...markdown.matchAll(rows)].map(([, code = '', kind = '', status = '']) => ({
    code,
    kind,
    status,
  }))
  const twice = codes.find(({ code }, i) => codes.findIndex((other) => other.code === code) !== i)
  if (twice !== undefined) throw new Error(`docs/errors.md explains ${twice.code} twice`)
  return codes
}
