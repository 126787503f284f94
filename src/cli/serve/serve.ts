import { systemClock } from '../../base/clock.ts'
import { unknownVariables } from '../environment.ts'
import { EXIT_FAILED, EXIT_OK } from '../exit-code.ts'
import { createLog } from '../log.ts'
import { StopSignals } from '../stop-signals.ts'
import { RunningNode } from './running-node.ts'
import type { ServeFlags } from './serve-flags.ts'

/** Serves until a signal asks for the end. */
export async function serve(flags: ServeFlags): Promise<never> {
  const log = createLog(flags.logLevel, process.stderr)
  for (const name of unknownVariables(process.env))
    log.warn({ name }, 'a variable that cellstore does not know is set')
  const stop = new StopSignals(systemClock, () => {
    log.error({}, 'ended at once by a second signal; what was not finished is undone')
    process.exit(EXIT_FAILED)
  })
  const starting = RunningNode.start(flags, {
    clock: systemClock,
    log,
    rootKey: takeRootKey(process.env),
    print: (text) => process.stdout.write(text),
  })
  const node = await Promise.race([starting, stop.asked()])
  // Nothing was served yet, and a store survives an end at any instant: there is nothing to wait for.
  if (node === undefined) process.exit(EXIT_OK)
  await stop.asked()
  log.info({}, 'stopping: requests under way finish first')
  await node.stop({ drainMs: flags.drain })
  log.info({}, 'stopped')
  // An ordinary end gives the signals back to the system first, and a repeat that comes in just then would kill.
  process.exit(EXIT_OK)
}

/** A key is in the environment no longer than it takes to read it: child processes and crash reports get a copy (invariant 12). */
function takeRootKey(environment: NodeJS.ProcessEnv): string | undefined {
  const key = environment['CELLSTORE_ROOT_KEY']
  delete environment['CELLSTORE_ROOT_KEY']
  return key
}
