import net from 'node:net'
import { expect, test } from 'vitest'
import { countOf } from '../../support/counts.ts'
import { Mutator } from '../../support/http/mutator.ts'
import { Victim } from '../../support/http/victim.ts'
import { seededRandom } from '../../support/seed.ts'

const COUNT = countOf('CELLSTORE_TEST_HTTP_FUZZ')
const AT_ONCE = 32
const CELL_CHECKED_EVERY = 100
/** After so long a silence a connection is given up: what was cut short never gets an answer of its own. */
const SILENCE_MS = 150

/** Sends bytes, and collects what comes until the connection is closed or silent. */
function send(port: number, bytes: Buffer): Promise<string> {
  return new Promise((resolve) => {
    const socket = net.connect(port, '127.0.0.1')
    let received = ''
    socket.setEncoding('latin1')
    socket.setTimeout(SILENCE_MS, () => socket.destroy())
    socket.on('data', (data: string) => {
      received += data
    })
    socket.on('error', () => {})
    socket.on('close', () => resolve(received))
    socket.write(bytes)
  })
}

test(
  `${COUNT} requests that are almost right: no 500, no crash, nothing logged as a bug, and others are answered meanwhile`,
  async () => {
    const random = seededRandom()
    const victim = await Victim.start('--rate', '1000000')
    let mutator = new Mutator(random, victim)
    const statuses = new Map<string, number>()
    let left = COUNT
    const worker = async () => {
      while (left-- > 0) {
        if (left % CELL_CHECKED_EVERY === 0 && (await victim.replaceCell()))
          mutator = new Mutator(random, victim)
        const bytes = Buffer.from(mutator.next(), 'latin1')
        const received = await send(victim.port, bytes)
        const found = received.match(/(?<=^|\r\n|\})HTTP\/1\.1 \d{3}(?= )/g) ?? ['none']
        for (const status of found) statuses.set(status.slice(-4), (statuses.get(status.slice(-4)) ?? 0) + 1)
        if (/HTTP\/1\.1 500 |"code":"internal"/.test(received))
          throw new Error(`500 for ${JSON.stringify(bytes.toString('latin1'))}: ${received}`)
        expect(received).not.toContain(victim.node.key)
      }
    }
    try {
      await Promise.all(Array.from({ length: AT_ONCE }, worker))
    } catch (error) {
      // If the node is gone, that is what there is to say.
      await victim.check()
      throw error
    }
    const shown = [...statuses]
      .sort(([a], [b]) => (a < b ? -1 : 1))
      .map(([status, count]) => `${count} ×${status}`)
    console.info(`HTTP fuzz: ${COUNT} sent; answers: ${shown.join(', ')}; ${await victim.check()}`)
  },
  60_000 + COUNT * 20,
)
