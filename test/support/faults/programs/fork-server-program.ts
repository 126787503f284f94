import { spawnForkServer } from '../../../../src/workers/children/spawn-child.ts'

/** A node that asks its fork server for a worker as soon as it has one, prints its id, and goes on until it is killed. */
const server = spawnForkServer()
server.on('message', () => {})
server.send({ id: 1, child: 'worker', memoryMax: 500 * 1_048_576 })
process.stdout.write(`${server.pid}\n`)
