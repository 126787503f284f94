// Runs the random tests with seeds that nobody has tried, and with larger counts: see `npm run soak -- --help`.
import { spawnSync } from 'node:child_process'
import { randomInt } from 'node:crypto'
import fs from 'node:fs'
import path from 'node:path'
import process from 'node:process'
import { parseArgs } from 'node:util'
import { COUNTS } from '../test/support/counts.ts'

const ROOT = path.join(import.meta.dirname, '..')
const TEST_MS_MAX = 3_600_000

const { values, positionals } = parseArgs({
  options: {
    seeds: { type: 'string', default: '1' },
    test: { type: 'string', short: 't' },
    help: { type: 'boolean', short: 'h' },
  },
  allowPositionals: true,
})

if (values.help) console.log(usage())
else process.exitCode = soak()

function soak() {
  const files = randomTests().filter(
    (file) => positionals.length === 0 || positionals.some((part) => file.includes(part)),
  )
  if (files.length === 0) {
    console.error(`No random test has ${positionals.join(' or ')} in its path.`)
    return 2
  }
  const failed = seeds().filter((seed) => !run(seed, files))
  if (failed.length === 0) return 0
  const again = failed.map((seed) => `CELLSTORE_SEED=${seed} npm run soak -- ${commandLine()}`)
  console.error(`Failed. To run the same again:\n${again.join('\n')}`)
  return 1
}

/** New ones, unless the environment names the one to repeat. */
function seeds() {
  const { CELLSTORE_SEED } = process.env
  if (CELLSTORE_SEED !== undefined) return [Number(CELLSTORE_SEED)]
  return Array.from({ length: Number(values.seeds) }, () => randomInt(2 ** 31))
}

function run(seed, files) {
  console.log(`CELLSTORE_SEED=${seed}`)
  const vitest = path.join(ROOT, 'node_modules', 'vitest', 'vitest.mjs')
  const only = values.test === undefined ? [] : ['--testNamePattern', values.test]
  const args = [vitest, 'run', '--typecheck.enabled=false', `--testTimeout=${TEST_MS_MAX}`, ...only, ...files]
  const env = { ...process.env, CELLSTORE_SOAK: '1', CELLSTORE_SEED: String(seed) }
  return spawnSync(process.execPath, args, { cwd: ROOT, env, stdio: 'inherit' }).status === 0
}

/** Those whose outcome may depend on the seed or on a count. */
function randomTests() {
  return fs
    .readdirSync(path.join(ROOT, 'test'), { recursive: true })
    .filter((file) => file.endsWith('.test.ts'))
    .map((file) => path.join('test', file))
    .filter((file) => /support\/(seed|counts)\.ts'/.test(fs.readFileSync(path.join(ROOT, file), 'utf8')))
    .sort()
}

function commandLine() {
  return [...positionals, ...(values.test === undefined ? [] : ['-t', `'${values.test}'`])].join(' ')
}

function usage() {
  const counts = Object.entries(COUNTS).map(
    ([name, { test, soak, of }]) => `  ${name.padEnd(30)} ${of} (${soak}; ${test} in npm test)`,
  )
  return `npm run soak -- [--seeds <count>] [-t <pattern>] [<part of a test file's path>…]

Runs the random tests, each time with another seed, which is printed first.

  --seeds <count>  how many seeds to try; 1 by default
  -t <pattern>     only the tests whose names match

Environment:
  CELLSTORE_SEED                 the seed to repeat, in place of new ones
${counts.join('\n')}`
}
