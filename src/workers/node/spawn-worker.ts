import { type ChildProcess, spawn } from 'node:child_process'
import fs from 'node:fs'
import { fileURLToPath } from 'node:url'

/** Files of this module's neighbourhood are TypeScript in a clone, and one bundle each in the package. */
const ENTRY = fileURLToPath(
  import.meta.url.endsWith('.ts')
    ? new URL('../worker/worker-main.ts', import.meta.url)
    : new URL('./worker.js', import.meta.url),
)

/** Beyond its limit a process is refused memory: SQLite then fails the statement, and V8 ends the process. */
const SHELL = '/bin/sh'
const WITH_MEMORY_LIMIT = 'ulimit -d "$1" 2>/dev/null; shift; exec "$@"'
/** What V8 reserves for code and never uses counts against the limit: 530 MB were measured with Node.js 24. */
const RESERVED_BYTES = 544 * 1_048_576

/**
 * Starts a worker's process, with pipes for the messages to and from it.
 *
 * @param memoryMax bytes of memory that it may ask for. Where there is no shell to set that limit, only what it really
 * uses is looked at, from outside.
 * @throws what the system says if it can't start another process
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
  throw new Error('The system could not start another process.')
}

/** A debugger has one port: each worker would ask for the same one, or wait until somebody attaches to it. */
function withoutDebugger(nodeOptions: string): string {
  return nodeOptions.replace(/--inspect-port[= ]\S+|--inspect\S*/g, '').trim()
}
