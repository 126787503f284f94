import ts from 'typescript'
import { globalUses, lineOf, type Source, walk } from './source.ts'

/** A rule of the house. Its check returns one line for each violation, none for a tidy project. */
export interface Rule {
  name: string
  check(sources: readonly Source[]): string[]
}

/**
 * The layers, each importing only those before it, by `import type` too. Those in one step never import each other.
 * src/index.ts, the public API, may export from all but the command. What helps the tests of users, and the adapters, import it as they do.
 */
const LAYERS: readonly (readonly string[])[] = [
  ['errors'],
  ['base'],
  ['client'],
  ['commit-log'],
  ['engine'],
  ['catalog'],
  ['kv', 'backup', 'auth'],
  ['store'],
  ['service'],
  ['workers', 'http'],
  ['metrics'],
  ['cluster'],
  ['cli'],
  ['index'],
  ['testing', 'adapters'],
  ['console'],
]

/** The same inside a layer. `.` stands for the files that lie directly in its folder. */
const INNER_LAYERS: Readonly<Record<string, readonly (readonly string[])[]>> = {
  'src/engine': [['sql-policy'], ['.', 'statements', 'watch', 'wal', 'commits', 'files', 'holds']],
  'src/backup': [
    ['object-store'],
    ['archive'],
    ['changes'],
    ['versions'],
    ['shipping'],
    ['create', 'restore', 'fence'],
    ['verify'],
    ['archiver'],
    ['.', 'recovery', 'schedule'],
  ],
  'src/console': [['session'], ['parts'], ['pages'], ['.', 'styles']],
  'src/workers': [['protocol'], ['children'], ['node', 'worker', 'archiver', 'checker']],
}

/** The console is a client: it knows the public interface, and how SQL is split into statements. */
const CONSOLE_IMPORTS = ['src/console/', 'src/client/index.ts', 'src/engine/sql-policy/sql-script.ts']

/** Any layer may read the version from it. */
const PACKAGE_JSON = 'package.json'

/** Packages that one file or folder has to itself. */
const PACKAGE_HOMES: readonly { packages: RegExp; home: string }[] = [
  { packages: /^better-sqlite3(\/|$)/, home: 'src/engine/sqlite.ts' },
  { packages: /^(@aws-sdk|@smithy)\//, home: 'src/backup/object-store/s3/' },
  { packages: /^prom-client(\/|$)/, home: 'src/metrics/' },
  { packages: /^pg(\/|$)/, home: 'src/cluster/postgres/' },
  { packages: /^(commander|cli-progress|string-width)(\/|$)/, home: 'src/cli/' },
  ...['drizzle-orm', 'keyv', 'kysely', 'unstorage'].map((name) => ({
    packages: new RegExp(`^${name}(/|$)`),
    home: `src/adapters/${name.replace('-orm', '')}.ts`,
  })),
]

const CLIENT_IMPORTS = /^(src\/client\/.*|src\/base\/options\/known-names\.ts|eventsource-parser)$/

/** Time and chance come from the injected clock and from node:crypto. The command alone sits outside, at the terminal. */
const TIME_HOMES = [
  'src/base/clock.ts',
  'src/client/wait.ts',
  'src/console/session/browser-clock.ts',
  'src/cli/',
]
const TIME_GLOBALS = [
  'Date.now',
  'setTimeout',
  'setInterval',
  'setImmediate',
  'clearTimeout',
  'performance.now',
  'performance.timeOrigin',
  'process.hrtime',
  'process.hrtime.bigint',
  'AbortSignal.timeout',
  'Math.random',
]
const TIME_MODULES = [
  'node:timers',
  'node:timers/promises',
  'node:perf_hooks',
  'timers',
  'timers/promises',
  'perf_hooks',
]

/**
 * Exports that Node 22.15 has and Node 20.0 lacks: a named import of one ends in an incomprehensible link error there,
 * before any code of ours can say what to do. Take the whole module (`import zlib from 'node:zlib'`) instead. The command
 * asks for the version before it loads the rest of itself, so it is free to.
 */
const LINK_BREAKERS: Readonly<Record<string, RegExp>> = {
  'node:zlib': /zstd|^crc32$/i,
  'node:sqlite': /./,
  'node:crypto': /^hash$/,
  'node:module': /^(registerHooks|enableCompileCache|stripTypeScriptTypes|findPackageJSON)$/,
  'node:fs': /^(glob|globSync)$/,
  'node:fs/promises': /^glob$/,
  'node:path': /^matchesGlob$/,
  'node:util': /^(styleText|parseEnv|getCallSites|diff|setTraceSigInt|getSystemErrorMessage)$/,
  'node:process': /^(execve|loadEnvFile|threadCpuUsage)$/,
}

/** Classes of which Node.js makes instances, in its own realm. */
const MADE_BY_NODE = ['Error', 'Uint8Array']

/** Spelt in two halves, so that this file keeps the rule. */
const BANNED_WORDS = [`TODO${'(now)'}`, `FIX${'ME'}`]

const LINES_MAX = 500

/** The bundler finds out whether one is missing. */
const STYLE = /^src\/console\/styles\/.*\.css$/

/** Made by a script, and not for reading. */
const GENERATED = /\.generated\.(ts|json)$/

export const RULES: readonly Rule[] = [
  {
    name: 'a layer imports only the layers before it',
    check: (sources) =>
      inSrc(sources).flatMap((source) => {
        const own = layerOf(source.path)
        if (own === undefined) return [`${source.path} belongs to no layer`]
        return source.imports.flatMap(({ target, line }) => {
          if (target === undefined || target === PACKAGE_JSON) return []
          const other = layerOf(target)
          if (other === own || (other !== undefined && stepOf(other) < stepOf(own) && other !== 'cli'))
            return []
          return [`${source.path}:${line} (${own}) imports ${target} (${other ?? 'no layer'})`]
        })
      }),
  },
  {
    name: 'errors.ts imports nothing',
    check: (sources) =>
      sources
        .filter(({ path: file }) => file === 'src/errors.ts')
        .flatMap(({ imports }) =>
          imports.map(({ specifier, line }) => `src/errors.ts:${line} imports ${specifier}`),
        ),
  },
  {
    name: 'client/ runs in browsers: it imports nothing of Node.js, and of base/ only what does neither',
    check: (sources) =>
      inSrc(sources)
        .filter(({ path: file }) => file.startsWith('src/client/'))
        .flatMap(({ path: file, imports }) =>
          imports
            .filter(({ specifier, target }) => !CLIENT_IMPORTS.test(target ?? specifier))
            .map(({ specifier, line }) => `${file}:${line} imports ${specifier}`),
        ),
  },
  {
    name: 'inside a layer, a folder imports only the folders before it',
    check: (sources) =>
      inSrc(sources).flatMap((source) =>
        Object.entries(INNER_LAYERS).flatMap(([folder, steps]) => {
          const own = innerStepOf(source.path, folder, steps)
          if (own === undefined) return []
          if (own.step < 0) return [`${source.path} belongs to no layer of ${folder}`]
          return source.imports.flatMap(({ target, line }) => {
            const other = target === undefined ? undefined : innerStepOf(target, folder, steps)
            if (other === undefined || other.folder === own.folder) return []
            const isSibling = other.step === own.step && !steps[own.step]?.includes('.')
            if (other.step < own.step || (other.step === own.step && !isSibling)) return []
            return [`${source.path}:${line} (${own.folder}) imports ${target} (${other.folder})`]
          })
        }),
      ),
  },
  {
    name: 'the console uses the public interface alone',
    check: (sources) =>
      inSrc(sources)
        .filter((source) => isIn(source, ['src/console/']))
        .flatMap((source) =>
          source.imports
            .filter(
              ({ target }) =>
                target !== undefined && !CONSOLE_IMPORTS.some((home) => target.startsWith(home)),
            )
            .map(({ target, line }) => `${source.path}:${line} imports ${target}`),
        ),
  },
  {
    name: 'no import cycles',
    check: (sources) => importCycles(sources).map((cycle) => cycle.join(' → ')),
  },
  {
    name: 'relative imports name a file that exists, with its .ts',
    check: (sources) => {
      const known = new Set([PACKAGE_JSON, ...sources.map((source) => source.path)])
      return inSrc(sources).flatMap((source) =>
        source.imports
          .filter(
            ({ target }) =>
              target !== undefined && !known.has(target) && !GENERATED.test(target) && !STYLE.test(target),
          )
          .map(({ specifier, line }) => `${source.path}:${line} imports ${specifier}`),
      )
    },
  },
  {
    name: 'the driver, the S3 client, the terminal packages and each adapter’s peer have one home each',
    check: (sources) =>
      inSrc(sources).flatMap((source) =>
        source.imports.flatMap(({ specifier, line }) =>
          PACKAGE_HOMES.filter(({ packages, home }) => packages.test(specifier) && !isIn(source, [home])).map(
            ({ home }) => `${source.path}:${line} imports ${specifier}; only ${home} does`,
          ),
        ),
      ),
  },
  {
    name: 'only http/ and client/ know Request and Response',
    check: (sources) =>
      inSrc(sources)
        .filter((source) => !isIn(source, ['src/http/', 'src/client/']))
        .flatMap((source) =>
          globalUses(source)
            .filter(({ name }) => /^(Request|Response)(\.|$)/.test(name))
            .map(({ name, node }) => `${source.path}:${lineOf(source.ast, node)} mentions ${name}`),
        ),
  },
  {
    name: 'only backup/versions/object-keys.ts spells object keys',
    check: (sources) =>
      inSrc(sources)
        .filter((source) => !isIn(source, ['src/backup/versions/object-keys.ts']))
        .flatMap((source) =>
          literals(source)
            .filter(({ text }) => /snapshots\\?\//.test(text))
            .map(({ node }) => `${source.path}:${lineOf(source.ast, node)} holds "snapshots/"`),
        ),
  },
  {
    name: 'time and chance come from the clock and node:crypto',
    check: (sources) =>
      inSrc(sources)
        .filter((source) => !isIn(source, TIME_HOMES))
        .flatMap((source) => [
          ...source.imports
            .filter(({ specifier, typeOnly }) => TIME_MODULES.includes(specifier) && !typeOnly)
            .map(
              ({ specifier, line }) => `${source.path}:${line} imports ${specifier}; use the injected Clock`,
            ),
          ...globalUses(source)
            .filter(({ name, node }) => TIME_GLOBALS.includes(name) || readsCurrentDate(name, node))
            .map(
              ({ name, node }) =>
                `${source.path}:${lineOf(source.ast, node)} uses ${name}; use the injected Clock`,
            ),
        ]),
  },
  {
    name: 'what may come of another realm is asked for in base/any-realm.ts: a test runner has one of its own',
    check: (sources) =>
      inSrc(sources)
        .filter((source) => !isIn(source, ['src/cli/', 'src/base/any-realm.ts']))
        .flatMap((source) =>
          globalUses(source)
            .filter(({ name, node }) => MADE_BY_NODE.includes(name) && isClassOfInstanceof(node))
            .map(
              ({ name, node }) => `${source.path}:${lineOf(source.ast, node)} asks for instanceof ${name}`,
            ),
        ),
  },
  {
    name: 'only the command writes to the console',
    check: (sources) =>
      inSrc(sources)
        .filter((source) => !isIn(source, ['src/cli/']))
        .flatMap((source) =>
          globalUses(source)
            .filter(({ name }) => name === 'console' || name.startsWith('console.'))
            .map(({ name, node }) => `${source.path}:${lineOf(source.ast, node)} uses ${name}`),
        ),
  },
  {
    name: 'no named import that would break linking on an old Node',
    check: (sources) =>
      inSrc(sources)
        .filter((source) => !isIn(source, ['src/cli/']))
        .flatMap((source) =>
          source.imports.flatMap(({ specifier, names, typeOnly, line }) => {
            const breaker = LINK_BREAKERS[specifier]
            if (breaker === undefined || typeOnly) return []
            return names
              .filter((name) => breaker.test(name))
              .map((name) => `${source.path}:${line} imports { ${name} } from ${specifier}`)
          }),
        ),
  },
  {
    name: 'index.ts has explicit named exports and nothing else',
    check: (sources) =>
      sources
        .filter(({ path: file }) => file === 'src/index.ts')
        .flatMap(({ ast }) =>
          ast.statements
            .filter(
              (statement) =>
                !(
                  ts.isExportDeclaration(statement) &&
                  statement.moduleSpecifier !== undefined &&
                  statement.exportClause !== undefined &&
                  ts.isNamedExports(statement.exportClause) &&
                  statement.exportClause.elements.every((element) => element.name.text !== 'default')
                ),
            )
            .map((statement) => `src/index.ts:${lineOf(ast, statement)} is no named export from a file`),
        ),
  },
  {
    name: 'tests are written with test, not it',
    check: (sources) =>
      sources.flatMap((source) =>
        source.imports
          .filter(({ specifier, names }) => specifier === 'vitest' && names.includes('it'))
          .map(({ line }) => `${source.path}:${line} imports it; import test`),
      ),
  },
  {
    name: 'tests are the same in every run: chance comes from test/support/seed.ts',
    check: (sources) =>
      sources
        .filter((source) => isIn(source, ['test/']))
        .flatMap((source) => [
          ...globalUses(source)
            .filter(({ name }) => name === 'Math.random')
            .map(({ name, node }) => `${source.path}:${lineOf(source.ast, node)} uses ${name}`),
          ...calls(source, 'fc.assert')
            .filter(({ arguments: [, options] }) => !/\bseed: SEED\b/.test(options?.getText() ?? ''))
            .map((call) => `${source.path}:${lineOf(source.ast, call)} has no { seed: SEED }`),
        ]),
  },
  {
    name: `no file is over ${LINES_MAX} lines`,
    check: (sources) =>
      sources
        .filter((source) => lineCount(source) > LINES_MAX && !GENERATED.test(source.path))
        .map((source) => `${source.path} has ${lineCount(source)} lines`),
  },
  {
    name: 'file and folder names are kebab-case',
    check: (sources) =>
      sources
        .filter(
          ({ path: file }) => !file.split('/').every((part) => /^[a-z0-9]+([-.][a-z0-9]+)*$/.test(part)),
        )
        .map(({ path: file }) => file),
  },
  {
    name: `no ${BANNED_WORDS.join(' and no ')}`,
    check: (sources) =>
      sources.flatMap(({ path: file, text }) =>
        text
          .split('\n')
          .flatMap((line, i) =>
            BANNED_WORDS.filter((word) => line.includes(word)).map((word) => `${file}:${i + 1} says ${word}`),
          ),
      ),
  },
]

/** Files that have grown past the size at which one asks whether they are still one concept. */
export function longFiles(sources: readonly Source[], linesWarn = 300): string[] {
  return inSrc(sources)
    .filter((source) => lineCount(source) > linesWarn && !GENERATED.test(source.path))
    .map((source) => `${source.path} (${lineCount(source)} lines)`)
}

function inSrc(sources: readonly Source[]): Source[] {
  return sources.filter((source) => source.path.startsWith('src/'))
}

/** A home is a file, or a folder with its slash. */
function isIn(source: Source, homes: readonly string[]): boolean {
  return homes.some((home) => (home.endsWith('/') ? source.path.startsWith(home) : source.path === home))
}

function lineCount(source: Source): number {
  return source.text.trimEnd().split('\n').length
}

/** A folder is a layer; the files next to the folders are layers of their own. */
function layerOf(file: string): string | undefined {
  const name = /^src\/([^/]+?)(?:\.ts)?(?:\/|$)/.exec(file)?.[1]
  return name !== undefined && stepOf(name) >= 0 ? name : undefined
}

/** @returns undefined for a file outside the folder; step -1 for a subfolder that has none */
function innerStepOf(file: string, folder: string, steps: readonly (readonly string[])[]) {
  if (!file.startsWith(`${folder}/`)) return undefined
  const [first = '', ...rest] = file.slice(folder.length + 1).split('/')
  const inner = rest.length === 0 ? '.' : first
  return { folder: inner, step: steps.findIndex((step) => step.includes(inner)) }
}

function stepOf(layer: string): number {
  return LAYERS.findIndex((step) => step.includes(layer))
}

/** `new Date()` and `Date()` read the time; `new Date(ms)` only shows one. */
function readsCurrentDate(name: string, node: ts.Node): boolean {
  if (name !== 'Date') return false
  if (ts.isNewExpression(node.parent)) return (node.parent.arguments?.length ?? 0) === 0
  return ts.isCallExpression(node.parent) && node.parent.expression === node
}

/** Text in the code: strings, template parts and regular expressions. Comments are not. */
function literals(source: Source): { text: string; node: ts.Node }[] {
  const found: { text: string; node: ts.Node }[] = []
  walk(source.ast, (node) => {
    if (
      ts.isStringLiteralLike(node) ||
      ts.isTemplateHead(node) ||
      ts.isTemplateMiddleOrTemplateTail(node) ||
      ts.isRegularExpressionLiteral(node)
    ) {
      found.push({ text: node.text, node })
    }
  })
  return found
}

function calls(source: Source, callee: string): ts.CallExpression[] {
  const found: ts.CallExpression[] = []
  walk(source.ast, (node) => {
    if (ts.isCallExpression(node) && node.expression.getText() === callee) found.push(node)
  })
  return found
}

/** Each cycle once, from its first file in path order. */
function importCycles(sources: readonly Source[]): string[][] {
  const targets = new Map(
    sources.map((source) => [source.path, source.imports.flatMap(({ target }) => target ?? [])]),
  )
  const cycles = new Map<string, string[]>()
  const done = new Set<string>()
  const visit = (file: string, trail: string[]) => {
    const from = trail.indexOf(file)
    if (from >= 0) {
      const cycle = trail.slice(from)
      cycles.set([...cycle].sort().join(), [...cycle, file])
      return
    }
    if (done.has(file)) return
    for (const target of targets.get(file) ?? []) visit(target, [...trail, file])
    done.add(file)
  }
  for (const file of [...targets.keys()].sort()) visit(file, [])
  return [...cycles.values()]
}

function isClassOfInstanceof({ parent }: ts.Node): boolean {
  return ts.isBinaryExpression(parent) && parent.operatorToken.kind === ts.SyntaxKind.InstanceOfKeyword
}
