import { type ChildProcess, spawn } from 'node:child_process'
import fs from 'node:fs'
import os from 'node:os'
import { fileURLToPath } from 'node:url'
import { lowerPriority } from '../../base/machine/lower-priority.ts'
import { childOptions, NEW_SPACE_OF_CHILDREN } from '../../base/machine/v8-options.ts'

/** In a clone the entries are TypeScript files; in the package they are bundles of their own. */
const isClone = import.meta.url.endsWith('.ts')
const WORKER = entryOf('../worker/worker-main.ts', './worker.js')
const ARCHIVER = entryOf('../archiver/archiver-main.ts', './archiver.js')
const CHECKER = entryOf('../checker/checker-main.ts', './checker.js')

const SHELL = '/bin/sh'
/** A core dump would contain what tenants store. */
const WITH_LIMITS =
  'test -n "$1" && ulimit -d "$1" 2>/dev/null; test -n "$2" && ulimit -t "$2" 2>/dev/null; ulimit -c 0 2>/dev/null; shift 2; exec "$@"'
/** V8 reserves address space for code and never uses it, but it counts against the limit: measured 530 MB, Node.js 24. */
const RESERVED_BYTES = 544 * 1_048_576
/** The archiver's heap, in MiB. What it moves is outside of it, in few buffers. */
const ARCHIVER_HEAP_MIB = 128
/**
 * How far below the node's own: requests come before backups. Beside an account that makes and deletes cells, a neighbour's 99th
 * percentile was 13.9 ms in place of 18.6. With the lowest priority a busy machine would hold up restores and shipping.
 */
const ARCHIVER_BELOW = 5
const { PRIORITY_LOW } = os.constants.priority

/** What the system, Node.js and its memory allocator need. Other variables of `NODE_` may hold secrets. */
const PASSED =
  /^(PATH|HOME|TZ|TMPDIR|LANG|LC_\w+|LD_\w+|MALLOC_\w+|UV_THREADPOOL_SIZE|NODE_(COMPILE_CACHE|ENV|V8_COVERAGE))$/
/** What AWS's client and the TLS connections to an S3 need. */
const PASSED_FOR_S3 =
  /^(AWS_\w+|NODE_(EXTRA_CA_CERTS|TLS_REJECT_UNAUTHORIZED|USE_ENV_PROXY|USE_SYSTEM_CA)|SSL_CERT_(FILE|DIR)|(HTTPS?|NO)_PROXY)$/i

/**
 * Starts a worker. Beyond its limit of memory, allocations fail: SQLite then fails the statement, and V8 aborts the process. Without a
 * shell to set the limit, the node only checks a worker's resident memory from outside.
 *
 * @param memoryMax bytes that it may allocate
 * @throws the system's error if it can't start another process
 */
export function spawnWorker(memoryMax: number): ChildProcess {
  return spawnChild([WORKER], { data: limitOf(memoryMax) }, childEnvironment(PASSED))
}

/**
 * Starts a process for one check. It ends beyond its limit of processor time: it must not outlive its parent for long, although it is
 * inside SQLite and can't notice.
 *
 * @param memoryMax bytes that it may allocate
 * @throws the system's error if it can't start another process
 */
export function spawnChecker(memoryMax: number, cpuSeconds: number): ChildProcess {
  const limits = { data: limitOf(memoryMax), cpu: String(cpuSeconds) }
  return spawnChild([CHECKER], limits, childEnvironment(PASSED))
}

function limitOf(memoryMax: number): string {
  return String(Math.ceil((memoryMax + RESERVED_BYTES) / 1_024))
}

/**
 * Starts the archiver process.
 *
 * @param objectStore the URL that it stores backups at: only for S3 does it get the credentials
 * @throws the system's error if it can't start another process
 */
export function spawnArchiver(objectStore: string): ChildProcess {
  const passed = objectStore.startsWith('s3:') ? [PASSED, PASSED_FOR_S3] : [PASSED]
  // A larger space for new objects, which a user may want elsewhere, does not fit into this heap.
  const heap = [`--max-old-space-size=${ARCHIVER_HEAP_MIB}`, NEW_SPACE_OF_CHILDREN]
  const child = spawnChild([...heap, ARCHIVER], {}, childEnvironment(...passed))
  lowerPriority(child.pid as number, Math.min(os.getPriority() + ARCHIVER_BELOW, PRIORITY_LOW))
  return child
}

/** Without one, there is no limit. */
interface Limits {
  /** KiB of memory. */
  data?: string
  /** Seconds of processor time. */
  cpu?: string
}

/** Starts a child process, with a pipe for messages in each direction. */
function spawnChild(
  args: readonly string[],
  { data = '', cpu = '' }: Limits,
  env: NodeJS.ProcessEnv,
): ChildProcess {
  const program = [process.execPath, ...childOptions(env['NODE_OPTIONS'], ...args), ...args]
  const [command = '', ...rest] = fs.existsSync(SHELL)
    ? [SHELL, '-c', WITH_LIMITS, SHELL, data, cpu, ...program]
    : program
  const child = spawn(command, rest, { stdio: ['ignore', 'ignore', 'inherit', 'pipe', 'pipe'], env })
  if (child.pid !== undefined) return child
  child.once('error', () => {})
  throw new Error('The system could not start another process. Check its limits on processes and memory.')
}

/** A child process gets no variable that it does not need. */
function childEnvironment(...passed: RegExp[]): NodeJS.ProcessEnv {
  const variables = Object.entries(process.env).filter(([name]) => passed.some((each) => each.test(name)))
  const nodeOptions = withoutDebugger(process.env['NODE_OPTIONS'] ?? '')
  return { ...Object.fromEntries(variables), NODE_OPTIONS: nodeOptions }
}

/** Each child would open the debugger's one port again, or wait for a debugger to attach. */
function withoutDebugger(nodeOptions: string): string {
  return nodeOptions.replace(/--inspect-port[= ]\S+|--inspect\S*/g, '').trim()
}

function entryOf(source: string, bundle: string): string {
  return fileURLToPath(new URL(isClone ? source : bundle, import.meta.url))
}
