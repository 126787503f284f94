// Builds dist/ when it is missing or older than what it is made from; with --force, always.
//
// Several npm processes may run this at once in one checkout, some beside a process that runs from dist/. So a build
// goes to a folder of its own and takes dist/'s place by rename, whole or not at all; a lock only saves the second one
// the work. Everything here must run on an old Node: npm scripts bring a new one, a bare `node scripts/…` does not.
import { spawnSync } from 'node:child_process'
import fs from 'node:fs'
import path from 'node:path'
import process from 'node:process'
import { fileURLToPath } from 'node:url'

const root = path.join(path.dirname(fileURLToPath(import.meta.url)), '..')
const dist = path.join(root, 'dist')
const lockFile = path.join(root, 'node_modules', '.cellstore-build.lock')

const INPUTS = ['src', 'package.json', 'tsup.config.ts', 'tsconfig.json', 'scripts/build-if-needed.mjs']
/** What a finished build always holds. */
const OUTPUTS = ['index.js', 'index.d.ts', 'client.d.ts', 'cellstore.js']
/** Entry points whose types are built on those of the library. */
const BESIDE = ['testing', 'drizzle', 'keyv', 'kysely', 'unstorage']
/**
 * Development dependencies that the sources import are bundled. zod is one: it comes in a hundred files, which took each
 * process of a node 80 ms to load. Their licenses go into the build.
 */
const BUNDLED = ['zod', 'eventsource-parser']
/** What the console is made of, as the browser gets it. */
const BUNDLED_INTO_CONSOLE = [
  'preact',
  'uplot',
  'codemirror',
  ...[
    'autocomplete',
    'commands',
    'lang-sql',
    'language',
    'lint',
    'search',
    'state',
    'streamparser',
    'view',
  ].map((name) => `@codemirror/${name}`),
  ...['common', 'highlight', 'lr'].map((name) => `@lezer/${name}`),
  '@marijn/find-cluster-break',
  'crelt',
  'eventsource-parser',
  'style-mod',
  'w3c-keyname',
]
/** A build takes some ten seconds; nobody waits for a lock that is older than this. */
const LOCK_AGE_MS_MAX = 120_000
const LOCK_POLL_MS = 100

process.exitCode = main(process.argv.includes('--force'))

function main(force) {
  if (!force && isFresh()) return 0
  const tsup = path.join(root, 'node_modules', 'tsup', 'dist', 'cli-default.js')
  if (!fs.existsSync(tsup)) {
    return fail('The build needs the development dependencies: run `npm ci` first, without --omit=dev.')
  }
  const node = pinnedNode()
  if (node === undefined) {
    return fail(
      `The build needs Node.js 22.15 or newer, and this is ${process.versions.node}: run \`npm ci\` (without --ignore-scripts), which brings one for the npm scripts.`,
    )
  }
  const locked = takeLock(() => !force && isFresh())
  try {
    // Whoever held the lock may have built just what is wanted here.
    if (!force && isFresh()) return 0
    return build(node, tsup)
  } finally {
    if (locked) fs.rmSync(lockFile, { force: true })
  }
}

function build(node, tsup) {
  process.stderr.write('cellstore: building dist/\n')
  removeAbandonedBuilds()
  const startedAt = new Date()
  const target = path.join(root, `dist.build-${process.pid}`)
  try {
    const result = spawnSync(node, [tsup, '--silent', '--out-dir', path.basename(target)], {
      cwd: root,
      stdio: ['ignore', 'pipe', 'pipe'],
      encoding: 'utf8',
    })
    if (result.status !== 0) {
      process.stderr.write(`${result.stdout ?? ''}${result.stderr ?? ''}`)
      const why = result.error?.message ?? (result.signal === null ? undefined : `ended by ${result.signal}`)
      return fail(`The build failed${why === undefined ? '' : ` (${why})`}.`)
    }
    const outputs = [...OUTPUTS, ...BESIDE.map((name) => `${name}.d.ts`)]
    const missing = outputs.filter((name) => !fs.existsSync(path.join(target, name)))
    if (missing.length > 0) return fail(`The build did not produce ${missing.join(', ')}.`)
    for (const name of ['index', 'client', ...BESIDE]) {
      exportOnlyTypesAsTypes(path.join(target, `${name}.d.ts`), path.join(target, `${name}.js`))
    }
    for (const name of BESIDE) importFromTheBuild(path.join(target, `${name}.d.ts`))
    for (const name of BUNDLED) {
      fs.copyFileSync(licenseOf(name), path.join(target, `${name}.LICENSE.txt`))
    }
    const licenses = BUNDLED_INTO_CONSOLE.map(
      (name) => `${name}\n\n${fs.readFileSync(licenseOf(name), 'utf8').trim()}\n`,
    )
    fs.mkdirSync(path.join(target, 'console'), { recursive: true })
    fs.writeFileSync(path.join(target, 'console', 'LICENSES.txt'), licenses.join('\n\n'))
    // What was edited while the build ran counts as newer than the build.
    for (const name of OUTPUTS) fs.utimesSync(path.join(target, name), startedAt, startedAt)
    replaceDist(target)
    return 0
  } finally {
    fs.rmSync(target, { recursive: true, force: true })
  }
}

function licenseOf(name) {
  return path.join(root, 'node_modules', name, 'LICENSE')
}

/**
 * The bundler of types makes values of the classes that src/index.ts exports as types alone: a program could construct
 * them as far as its compiler knows, and would find them undefined.
 */
function exportOnlyTypesAsTypes(typesFile, codeFile) {
  const lists = [...fs.readFileSync(codeFile, 'utf8').matchAll(/^export \{([^}]*)\}/gm)]
  const values = new Set(lists.flatMap(([, list]) => exportedNames(list)).map(({ name }) => name))
  const types = fs.readFileSync(typesFile, 'utf8').replace(/^export \{([^}]*)\};?$/gm, (statement, list) => {
    const names = exportedNames(list)
    const onlyTypes = names.filter(({ name }) => !values.has(name))
    if (onlyTypes.length === 0) return statement
    const others = names.filter(({ name }) => values.has(name))
    const line = (keyword, some) => `${keyword} { ${some.map(({ text }) => text).join(', ')} };`
    return `${line('export', others)}\n${line('export type', onlyTypes)}`
  })
  fs.writeFileSync(typesFile, types)
}

/** The bundler leaves the path of the source where it was told not to copy the library's types. */
function importFromTheBuild(typesFile) {
  const types = fs.readFileSync(typesFile, 'utf8')
  fs.writeFileSync(typesFile, types.replaceAll(/(['"])[^'"]*\/index\.ts\1/g, "'./index.js'"))
}

/** Of `A, B as C`: what each is written as, and the name that it is exported by. */
function exportedNames(list) {
  const texts = list.split(',').map((text) => text.trim())
  return texts.filter((text) => text !== '').map((text) => ({ text, name: text.replace(/^.* as /, '') }))
}

function replaceDist(target) {
  const old = path.join(root, `dist.old-${process.pid}`)
  // Another build may put its own dist/ in place between the two renames; then that one makes way too.
  for (let attempt = 1; ; attempt++) {
    try {
      if (fs.existsSync(dist)) fs.renameSync(dist, old)
      fs.renameSync(target, dist)
      break
    } catch (error) {
      if (attempt === 10 || !['ENOENT', 'ENOTEMPTY', 'EEXIST'].includes(error.code)) throw error
    } finally {
      fs.rmSync(old, { recursive: true, force: true })
    }
  }
}

function isFresh() {
  const built = Math.min(
    ...OUTPUTS.map((name) => modifiedMs(path.join(dist, name)) ?? Number.NEGATIVE_INFINITY),
  )
  return INPUTS.every((name) => newestMs(path.join(root, name)) <= built)
}

/** The newest change below a path. A folder's own time counts too: it is what a removed file leaves. */
function newestMs(file) {
  const own = modifiedMs(file)
  if (own === undefined) return Number.NEGATIVE_INFINITY
  if (!fs.statSync(file).isDirectory()) return own
  return Math.max(own, ...fs.readdirSync(file).map((name) => newestMs(path.join(file, name))))
}

function modifiedMs(file) {
  return fs.statSync(file, { throwIfNoEntry: false })?.mtimeMs
}

/** @returns whether the lock is held; false means that it is no longer needed. */
function takeLock(isDone) {
  for (;;) {
    try {
      fs.writeFileSync(lockFile, String(process.pid), { flag: 'wx' })
      return true
    } catch (error) {
      if (error.code !== 'EEXIST') throw error
    }
    if (isDone()) return false
    if (isLockStale()) fs.rmSync(lockFile, { force: true })
    else Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, LOCK_POLL_MS)
  }
}

function isLockStale() {
  try {
    if (Date.now() - fs.statSync(lockFile).mtimeMs > LOCK_AGE_MS_MAX) return true
    // 0: it was created this moment and holds no process id yet.
    const holder = Number(fs.readFileSync(lockFile, 'utf8'))
    return holder > 0 && !isAlive(holder)
  } catch (error) {
    if (error.code === 'ENOENT') return false
    throw error
  }
}

function isAlive(pid) {
  try {
    process.kill(pid, 0)
    return true
  } catch (error) {
    return error.code === 'EPERM'
  }
}

/** Folders of builds whose process is gone. */
function removeAbandonedBuilds() {
  for (const name of fs.readdirSync(root)) {
    const pid = /^dist\.(?:build|old)-(\d+)$/.exec(name)?.[1]
    if (pid !== undefined && !isAlive(Number(pid)))
      fs.rmSync(path.join(root, name), { recursive: true, force: true })
  }
}

/** The Node of the development dependencies, else this one if it is new enough. */
function pinnedNode() {
  const pinned = path.join(root, 'node_modules', '.bin', 'node')
  if (fs.existsSync(pinned)) return pinned
  const [major = 0, minor = 0] = process.versions.node.split('.').map(Number)
  return major > 22 || (major === 22 && minor >= 15) ? process.execPath : undefined
}

function fail(sentence) {
  process.stderr.write(`cellstore: ${sentence}\n`)
  return 1
}
