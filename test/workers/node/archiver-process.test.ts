import { setImmediate as turnOfTheLoop } from 'node:timers/promises'
import { expect, test } from 'vitest'
import { silentLog } from '../../../src/base/log.ts'
import { ArchiverProcess, type ArchiverProcessParts } from '../../../src/workers/node/archiver-process.ts'
import type { FromArchiver, ToArchiver } from '../../../src/workers/protocol/archiver-protocol.ts'
import { FakeClock } from '../../support/fake-clock.ts'

/** What an archiver hears when it asks for the beginning of a restore and the node fails. */
async function answerTo(failure: Error) {
  const sent: ToArchiver[] = []
  let say: (message: FromArchiver) => void = () => {}
  const child = {
    ended: new Promise(() => {}),
    identity: { pid: 1 },
    send: (each: ToArchiver) => sent.push(each),
  }
  const beginRestore = () => Promise.reject(failure)
  const archiver = new ArchiverProcess({
    settings: {},
    epoch: () => undefined,
    cells: { beginRestore },
    clock: new FakeClock(),
    log: silentLog,
    spawn: (take: typeof say) => {
      say = take
      return child
    },
    publish: () => {},
  } as unknown as ArchiverProcessParts)
  archiver.start()
  say({ type: 'call', id: 1, call: { method: 'beginRestore', args: ['a'] } })
  await turnOfTheLoop()
  return sent.find((each) => each.type === 'answer')?.error
}

const systemError = (code: string) =>
  Object.assign(new Error(`${code}: it failed`), { code, syscall: 'open' })

test('a full disk of the node is one for the archiver too: who waits for a restore tries again', async () => {
  expect(await answerTo(systemError('ENOSPC'))).toMatchObject({ code: 'disk_full' })
})

test('what nobody expects keeps its words, for the log', async () => {
  expect(await answerTo(systemError('EIO'))).toMatchObject({ code: null, message: 'EIO: it failed' })
})
