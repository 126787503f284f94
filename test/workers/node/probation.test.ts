import { expect, test } from 'vitest'
import type { ScriptedWorker } from '../../support/workers/scripted-worker.ts'
import {
  A,
  B,
  C,
  HOLD_MS,
  PROBATION_MS,
  ScriptedWorkers,
  TRIAL_MS,
} from '../../support/workers/scripted-workers.ts'

const cellOf = (n: number) => n.toString(16).padStart(8, '0') + A.slice(8)
const known = { accountId: 'known' }
const fresh = { accountId: 'new' }
const others = { isKnown: (accountId: string) => accountId !== 'new' }

/** The worker that was given an operation last. */
function workerOf(node: ScriptedWorkers, text: string): ScriptedWorker {
  const found = node.asked.find(({ given }) => given.includes(text))
  if (found === undefined) throw new Error(`No worker was given ${text}`)
  return found
}

/** Answers whatever the worker is at work on. */
function finish(worker: ScriptedWorker): void {
  worker.answer(Object.fromEntries(worker.given.map((_, index) => [index, 'done'])))
  worker.say({ type: 'done' })
}

/** Runs an operation to its end. @returns the worker that ran it */
async function run(node: ScriptedWorkers, cellId: string, told: { accountId: string }) {
  const text = `${told.accountId} in ${cellId}`
  node.put(cellId, text, told)
  await node.settle()
  const worker = workerOf(node, text)
  finish(worker)
  return worker
}

test("a new account's first slow statement ends no worker that a known account uses", async () => {
  const node = await ScriptedWorkers.started(others)
  const shared = await run(node, B, known)
  node.sql(cellOf(1), 'slow', fresh)
  node.sql(cellOf(2), 'mine too', fresh)
  node.put(B, 'neighbour', known)
  await node.settle()
  workerOf(node, 'slow').say({ type: 'started', index: 0 })
  await node.pass(HOLD_MS + 20)
  expect(node.all.filter(({ isKilled }) => isKilled)).not.toContain(shared)
  expect(workerOf(node, 'neighbour')).toBe(shared)
  expect(shared.given).toEqual(['neighbour'])
})
