import { type ChildProcess, spawn } from 'node:child_process'
import fs from 'node:fs'
import { fileURLToPath } from 'node:url'

/** In a clone the entry is a TypeScript file; in the package it is a bundle of its own. */
const ENTRY = fileURLToPath(
  import.meta.url.endsWith('.ts')
    ? new URL('../worker/worker-main.ts', import.meta.url)
    : new URL('./worker.js', import.meta.url),
)

/** Beyond the limit, allocations fail: SQLite then fails the statement, and V8 aborts the process. */
const SHELL = '/bin/sh'
/** A core dump would hold what tenants store. */
const WITH_LIMITS = 'ulimit -d "$1" 2>/dev/null; ulimit -c 0 2>/dev/null; shift; exec "$@"'
/** V8 reserves address space for code and never uses it, but it counts against the limit: measured 530 MB, Node.js 24. */
const RESERVED_BYTES = 544 * 1_048_576

/** What the system, Node.js and its memory allocator need. Other variables of `NODE_` may hold secrets. */
const PASSED =
  /^(PATH|HOME|TZ|TMPDIR|LANG|LC_\w+|LD_\w+|MALLOC_\w+|UV_THREADPOOL_SIZE|NODE_(COMPILE_CACHE|ENV|V8_COVERAGE))$/
/** What AWS's client and the TLS connections to an S3 need. */
const PASSED_FOR_S3 =
  /^(AWS_\w+|NODE_(EXTRA_CA_CERTS|TLS_REJECT_UNAUTHORIZED|USE_ENV_PROXY|USE_SYSTEM_CA)|SSL_CERT_(FILE|DIR)|(HTTPS?|NO)_PROXY)$/i

/**
 * Starts a worker process, with a pipe for messages in each direction.
 *
 * @param memoryMax bytes of memory that it may allocate. Without a shell to set this limit, the node only checks the
 * resident memory from outside.
 * @param objectStore the URL that the worker stores backups at; undefined without one
 * @throws the system's error if it can't start another process
 */
export function spawnWorker(memoryMax: number, objectStore: string | undefined): ChildProcess {
  const limit = String(Math.ceil((memoryMax + RESERVED_BYTES) / 1_024))
  const program = [process.execPath, ENTRY]
  const [command = '', ...args] = fs.existsSync(SHELL)
    ? [SHELL, '-c', WITH_LIMITS, SHELL, limit, ...program]
    : program
  const child = spawn(command, args, {
    stdio: ['ignore', 'ignore', 'inherit', 'pipe', 'pipe'],
    env: workerEnvironment(process.env, objectStore),
  })
  if (child.pid !== undefined) return child
  child.once('error', () => {})
  throw new Error('The system could not start another process. Check its limits on processes and memory.')
}

/** A worker runs the SQL of tenants, so it gets no variable that it does not need. */
function workerEnvironment(
  environment: NodeJS.ProcessEnv,
  objectStore: string | undefined,
): NodeJS.ProcessEnv {
  const isS3 = objectStore?.startsWith('s3:') === true
  const passed = Object.entries(environment).filter(
    ([name]) => PASSED.test(name) || (isS3 && PASSED_FOR_S3.test(name)),
  )
  const nodeOptions = withoutDebugger(environment['NODE_OPTIONS'] ?? '')
  return { ...Object.fromEntries(passed), NODE_OPTIONS: nodeOptions }
}

/** Each worker would open the debugger's one port again, or wait for a debugger to attach. */
function withoutDebugger(nodeOptions: string): string {
  return nodeOptions.replace(/--inspect-port[= ]\S+|--inspect\S*/g, '').trim()
}
