import { beforeEach, describe, expect, test } from 'vitest'
import { AccountPlaces } from '../../src/base/fairness/account-places.ts'
import { turnsUntil } from '../support/turns.ts'

let places: AccountPlaces
/** In the order in which they began. */
let begun: string[]
let ends: Map<string, () => void>
beforeEach(() => {
  places = new AccountPlaces(2)
  begun = []
  ends = new Map()
})

/** Work of an account, the first letter of its name, that lasts until it is ended. */
function work(name: string, signal?: AbortSignal): Promise<void> {
  const run = () => {
    begun.push(name)
    return new Promise<void>((resolve) => ends.set(name, resolve))
  }
  return places.run(name.charAt(0), signal, run)
}

async function end(name: string): Promise<void> {
  await turnsUntil(() => ends.has(name), `${name} runs`)
  ends.get(name)?.()
  await turns()
}

async function turns(): Promise<void> {
  for (let turn = 0; turn < 5; turn++) await new Promise((resolve) => setImmediate(resolve))
}

describe('places that accounts share', () => {
  test('are never all one account’s, so that the work of another one begins at once', async () => {
    for (const name of ['a1', 'a2', 'a3']) void work(name)
    await turns()
    expect(begun).toEqual(['a1'])
    void work('b1')
    await turns()
    expect(begun).toEqual(['a1', 'b1'])
  })

  test('go to accounts in turns, however much each has waiting', async () => {
    for (const name of ['a1', 'b1', 'a2', 'a3', 'a4', 'b2', 'c1', 'c2']) void work(name)
    for (const name of ['a1', 'a2', 'b1', 'c1', 'b2', 'a3', 'c2']) await end(name)
    expect(begun).toEqual(['a1', 'b1', 'a2', 'c1', 'b2', 'a3', 'c2', 'a4'])
  })

  test('are given on when work fails, or its caller no longer waits', async () => {
    const abort = new AbortController()
    void work('a1')
    const failed = places.run('b', undefined, () => Promise.reject(new Error('no')))
    await expect(failed).rejects.toThrow('no')
    void work('b1')
    const waiting = work('b2', abort.signal)
    void work('b3')
    abort.abort(new Error('enough'))
    await expect(waiting).rejects.toThrow('enough')
    await expect(work('c1', abort.signal)).rejects.toThrow('enough')
    await end('b1')
    expect(begun).toEqual(['a1', 'b1', 'b3'])
  })
})
