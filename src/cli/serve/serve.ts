import fs from 'node:fs'
import { systemClock } from '../../base/clock.ts'
import { isCellError } from '../../errors.ts'
import { createLog } from '../log.ts'
import { EXIT_FAILED, EXIT_OK } from '../terminal/report-error.ts'
import { StopSignals } from '../terminal/stop-signals.ts'
import { RunningNode } from './running-node.ts'
import type { ServeFlags } from './serve-flags.ts'

/** Requests under way are refused by then, and told so. */
const TAKEN_OVER_DRAIN_MS = 1_000
const ROOT_KEY = 'CELLSTORE_ROOT_KEY'

/** Serves until a signal asks it to stop. */
export async function serve(flags: ServeFlags): Promise<never> {
  const log = createLog(flags.logLevel, process.stderr)
  const stop = new StopSignals(systemClock, () => {
    log.error({}, 'a second signal ended the node at once; unfinished changes are undone')
    process.exit(EXIT_FAILED)
  })
  const starting = RunningNode.start(flags, {
    clock: systemClock,
    log,
    accessLog: log,
    rootKey: takeRootKey(process.env),
    print: (text) => process.stdout.write(text),
  })
  const node = await Promise.race([starting, stop.asked()])
  // Nothing was served yet, and a store survives an end at any instant, so there is nothing to wait for.
  if (node === undefined) process.exit(EXIT_OK)
  const takenOver = await Promise.race([stop.asked(), node.leaveAsked(), node.takenOver()])
  if (isCellError(takenOver)) {
    log.error({}, `stopping: ${takenOver.message}`)
    await node.stop({ drainMs: TAKEN_OVER_DRAIN_MS })
    process.exit(EXIT_FAILED)
  }
  log.info({}, 'stopping: the requests under way finish first')
  await node.stop({ drainMs: flags.drain })
  log.info({}, 'stopped')
  // An ordinary end would give the signals back to the system first, and a repeated signal would then kill.
  process.exit(EXIT_OK)
}

/**
 * The key leaves the environment at once: child processes and crash reports get a copy of it (invariant 12), and the
 * system shows the one that this process was started with.
 */
function takeRootKey(environment: NodeJS.ProcessEnv): string | undefined {
  const key = environment[ROOT_KEY]
  delete environment[ROOT_KEY]
  if (key !== undefined) eraseInitialVariable(ROOT_KEY)
  return key
}

/** In /proc/self/stat, counted from the state, which follows the program's name in parentheses. */
const ENV_START = 47
const ENV_END = 48
const ERASED = 0x78 // x

/**
 * Overwrites a variable's value in the block that this process was started with: /proc/<pid>/environ shows that block to
 * the user of the process and to root, whatever was deleted since. Works on Linux; elsewhere, and where the system does
 * not allow it, nothing happens. Delete the variable from `process.env` before: the C library must not read it any more.
 */
function eraseInitialVariable(name: string): void {
  try {
    const [start, end] = initialBlock()
    const memory = fs.openSync('/proc/self/mem', 'r+')
    try {
      const block = Buffer.alloc(end - start)
      if (fs.readSync(memory, block, 0, block.length, start) === block.length)
        erase(memory, block, start, name)
    } finally {
      fs.closeSync(memory)
    }
  } catch {
    // The value stays visible to the same user and to root, as docs/promises.md says.
  }
}

function initialBlock(): [start: number, end: number] {
  const stat = fs.readFileSync('/proc/self/stat', 'latin1')
  const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ')
  return [Number(fields[ENV_START]), Number(fields[ENV_END])]
}

/** The block is `NAME=value`, each with a zero byte at its end. */
function erase(memory: number, block: Buffer, start: number, name: string): void {
  const prefix = Buffer.from(`${name}=`)
  for (let at = 0; at < block.length; ) {
    const zero = block.indexOf(0, at)
    const end = zero === -1 ? block.length : zero
    if (block.subarray(at, at + prefix.length).equals(prefix)) {
      const value = Buffer.alloc(end - at - prefix.length, ERASED)
      fs.writeSync(memory, value, 0, value.length, start + at + prefix.length)
    }
    at = end + 1
  }
}
