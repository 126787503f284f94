import { systemClock } from '../../base/clock.ts'
import { createLog } from '../log.ts'
import { EXIT_FAILED, EXIT_OK } from '../terminal/report-error.ts'
import { StopSignals } from '../terminal/stop-signals.ts'
import { eraseInitialVariable } from './initial-environment.ts'
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
  const takenOver = await Promise.race([stop.asked(), node.takenOver()])
  if (takenOver !== undefined) {
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
