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
const WITH_MEMORY_LIMIT = 'ulimit -d "$1" 2>/dev/null; shift; exec "$@"'
/** V8 reserves address space for code and never uses it, but it counts against the limit: measured 530 MB, Node.js 24. */
const RESERVED_BYTES = 544 * 1_048_576

/**
 * Starts a worker process, with a pipe for messages in each direction.
 *
 * @param memoryMax bytes of memory that it may allocate. Without a shell to set this limit, the node only checks the
 * resident memory from outside.
 * @throws the system's error if it can't start another process
 */
export function spawnWorker(memoryMax: number): ChildProcess {
  const limit = String(Math.ceil((memoryMax + RESERVED_BYTES) / 1_024))
  const program = [process.execPath, ENTRY]
  const [command = '', ...args] = fs.existsSync(SHELL)
    ? [SHELL, '-c', WITH_MEMORY_LIMIT, SHELL, limit, ...program]
    : program
  const child = spawn(command, args, {
    stdio: ['ignore', 'ignore', 'inherit', 'pipe', 'pipe'],
    env: { ...process.env, NODE_OPTIONS: withoutDebugger(process.env['NODE_OPTIONS'] ?? '') },
  })
  if (child.pid !== undefined) return child
  child.once('error', () => {})
  throw new Error('The system could not start another process. Check its limits on processes and memory.')
}

/** Each worker would open the debugger's one port again, or wait for a debugger to attach. */
function withoutDebugger(nodeOptions: string): string {
  return nodeOptions.replace(/--inspect-port[= ]\S+|--inspect\S*/g, '').trim()
}
