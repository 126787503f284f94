import type { ChildProcess } from 'node:child_process'
import type { Socket } from 'node:net'
import { systemClock } from '../../base/clock.ts'
import { processStartTime } from '../../base/machine.ts'
import { spawnWanted } from '../children/spawn-child.ts'
import type { FromForkServer, ToForkServer } from '../protocol/fork-server-protocol.ts'
import { ANSWERS_FD, REQUESTS_FD } from '../protocol/protocol.ts'

const LOOK_MS = 1_000
const nodePid = Number(process.argv[2])

/**
 * The fork server: a process that starts other processes for its node, and does nothing else. Linux copies the page tables of whoever
 * starts a process, and then each page that it writes to: 20 ms at once and 100 ms more for a node of 500 MB, next to 2 ms for
 * this small process. It opens nothing of the store, and ends when the node ends.
 */
function start({ id, ...wanted }: ToForkServer): void {
  endWithNode()
  let child: ChildProcess
  try {
    child = spawnWanted(wanted)
  } catch (error) {
    tell({ type: 'failed', id, reason: (error as Error).message })
    return
  }
  const pid = child.pid as number
  // Nobody can have waited for it yet, so the pid is its own.
  tell({ type: 'started', id, identity: { pid, startTime: processStartTime(pid) } })
  child.once('exit', (_code, signal) => tell({ type: 'exited', id, signal }))
  // In this order: this process reads a pipe until the node has it, and what it reads is lost. The second pipe leaves when the node has
  // the first one, and without the second one the node can't ask anything that the child would answer.
  tell({ type: 'pipe', id, pipe: 'answers' }, child.stdio[ANSWERS_FD] as Socket)
  tell({ type: 'pipe', id, pipe: 'requests' }, child.stdio[REQUESTS_FD] as Socket)
}

function tell(message: FromForkServer, pipe?: Socket): void {
  process.send?.(message, pipe, {}, endWithNode)
}

function endWithNode(): void {
  if (!process.connected || process.ppid !== nodePid) process.exit()
}

/** Node.js does not always tell of the end of a parent that ends while this program is read. */
function lookForNode(): void {
  endWithNode()
  systemClock.setTimer(lookForNode, LOOK_MS)
}

// The node ends its children in order: a signal to the whole process group must not.
for (const signal of ['SIGTERM', 'SIGINT', 'SIGHUP'] as const) process.on(signal, () => {})
// A node without descriptors takes no pipe, and hears of that. Standard error is the node's log.
process.removeAllListeners('warning')
process.on('disconnect', endWithNode)
process.on('message', (message) => start(message as ToForkServer))
lookForNode()
