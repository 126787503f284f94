import { lowerPriority } from '../../src/base/machine/lower-priority.ts'
import { ATTACKS } from './attacks.ts'
import { crowds } from './crowds.ts'
import { honestLoad } from './honest-load.ts'
import { Tenant } from './tenant.ts'

/**
 * The attacker's process. Its own work must not disturb the neighbour's clock, so it has a process of its own, and the
 * lowest priority: on a real network it would use other machines' processors.
 */
export interface Orders {
  port: number
  key: string
  /** Makes further accounts. */
  ownerKey: string
  /** Where it comes from: a proxy counts by address. */
  address: string
  names: readonly string[]
  seed: number
}

export type ToAttacker = Orders | 'begin' | 'end'
export type FromAttacker = 'prepared' | { answers: [answer: string, count: number][] }

const stop = new AbortController()
let tenant: Tenant
let begin: (signal: AbortSignal) => Promise<unknown>

process.on('message', async (message: ToAttacker) => {
  if (message === 'end') {
    stop.abort()
    tenant.close()
  } else if (message === 'begin') {
    await begin(stop.signal)
    process.send?.({ answers: [...tenant.answers].sort(([, a], [, b]) => b - a) } satisfies FromAttacker)
  } else begin = await prepare(message)
})

async function prepare({ port, key, ownerKey, address, names, seed }: Orders): Promise<typeof begin> {
  // With all its threads: also those that collect the garbage of large answers must not be in the way.
  lowerPriority(process.pid)
  tenant = new Tenant(port, key, seed, address, ownerKey)
  tenant.asksAgain = true
  const attacks: ((signal: AbortSignal) => Promise<unknown>)[] = []
  for (const name of names) {
    const attack = ATTACKS[name] ?? honestLoad[name] ?? crowds[name]
    if (attack === undefined) throw new Error(`No attack has the name ${name}.`)
    attacks.push(await attack(tenant))
  }
  tenant.asksAgain = false
  tenant.answers.clear()
  process.send?.('prepared' satisfies FromAttacker)
  return (signal) => Promise.all(attacks.map((attack) => attack(signal)))
}
