import fs from 'node:fs'
import path from 'node:path'
import { expect, test } from 'vitest'
import { FileBody } from '../../src/http/body/file-body.ts'
import { FakeClock } from '../support/fake-clock.ts'
import { tempDirectory } from '../support/temp-directory.ts'
import { until } from '../support/until.ts'

const BYTES = 1_000_000

function openBody(ms: number) {
  const file = path.join(tempDirectory(), 'file')
  fs.writeFileSync(file, Buffer.alloc(BYTES))
  const clock = new FakeClock()
  const state = { isDone: false }
  const body = new FileBody({
    path: file,
    length: BYTES,
    deadline: { clock, ms },
    done: async () => {
      state.isDone = true
    },
  })
  return { body, clock, state }
}

test('a client that takes its file too slowly gets no more of it, and the file goes', async () => {
  const { body, clock, state } = openBody(5_000)
  const stream = body.open()
  let bytes = 0
  const ended = (async () => {
    for await (const piece of stream) {
      bytes += piece.length
      // The client waits, and the time goes by.
      clock.advance(3_000)
    }
  })()
  await expect(ended).rejects.toThrow()
  expect(bytes).toBeLessThan(BYTES)
  await until(() => state.isDone, 'the file is gone')
})

test('a client that takes it in time gets all of it, and no timer is left', async () => {
  const { body, clock, state } = openBody(5_000)
  let bytes = 0
  for await (const piece of body.open()) bytes += piece.length
  expect(bytes).toBe(BYTES)
  await until(() => state.isDone, 'the file is gone')
  clock.advance(10_000)
})
