import type { Attack } from './attack.ts'
import { repeat } from './tenant.ts'

/**
 * No attack: an account that is busy and asks for what it may. Its row tells what this machine's processors cost a
 * neighbour, whatever is asked.
 */
export const honestLoad: Record<string, Attack> = {
  'control: a busy account that reads and writes entries': async (tenant) => {
    const [cell] = await tenant.newCells(1)
    return (signal) =>
      repeat(tenant, signal, 32, (turn) => {
        const path = `/databases/${cell}/kv/k${turn % 1_000}`
        return turn % 4 === 0
          ? tenant.ask('PUT', path, { value: 'v'.repeat(100) })
          : tenant.ask('GET', `/databases/${cell}/kv/k0`)
      })
  },
}
