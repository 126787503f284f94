import { setImmediate as turnOfTheLoop } from 'node:timers/promises'
import { describe, expect, test } from 'vitest'
import type { ManifestHead } from '../../../src/backup/archive/manifest.ts'
import type { RestoreRequest } from '../../../src/backup/archiver/archiver.ts'
import type { CellPort, RestoredCell } from '../../../src/backup/archiver/cell-port.ts'
import { silentLog } from '../../../src/base/log.ts'
import {
  ArchiverProcess,
  type ArchiverProcessParts,
} from '../../../src/workers/node/archiver/archiver-process.ts'
import type { FromArchiver, ToArchiver } from '../../../src/workers/protocol/archiver-protocol.ts'
import { FakeClock } from '../../support/fake-clock.ts'
import { rejectedBy } from '../../support/thrown.ts'

/** A node whose archiver is played by the test: what it was sent, what it says, and when its process ends. */
function startNode(cells: Partial<CellPort>) {
  const clock = new FakeClock()
  const sent: ToArchiver[] = []
  const played = { say: (_message: FromArchiver) => {}, end: () => {} }
  const archiver = new ArchiverProcess({
    settings: {},
    epoch: () => undefined,
    cells,
    clock,
    log: silentLog,
    spawn: (take: (message: FromArchiver) => void) => {
      const { promise: ended, resolve } = Promise.withResolvers<void>()
      Object.assign(played, { say: take, end: resolve })
      return { ended, identity: { pid: 1 }, send: (each: ToArchiver) => sent.push(each), kill: resolve }
    },
    publish: () => {},
    onEnded: () => {},
  } as unknown as ArchiverProcessParts)
  archiver.start()
  return { archiver, clock, sent, played }
}

/** What an archiver hears when it asks for the beginning of a restore and the node fails. */
async function answerTo(failure: Error) {
  const { played, sent } = startNode({ beginRestore: () => Promise.reject(failure) })
  played.say({ type: 'call', id: 1, call: { method: 'beginRestore', args: ['a'] } })
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

describe('a restore whose archiver ends after it has asked for the switch', () => {
  const request = { cellId: 'a', version: 'v' } as RestoreRequest
  const result = {
    version: 'v',
    kind: 'snapshot',
    timestamp: 7,
    replacedAt: 8,
    sizeBytes: 9,
    durationMs: 10,
  } as const
  const restored: RestoredCell = {
    manifest: {} as ManifestHead,
    isNewest: false,
    last: 'v',
    line: 8,
    existed: true,
    result,
  }

  /** The switch is under way, and the archiver has ended; another one is ready. */
  async function switching() {
    const { promise: switched, resolve, reject } = Promise.withResolvers<void>()
    const ended: string[] = []
    const node = startNode({ install: () => switched, endRestore: async (cellId) => void ended.push(cellId) })
    node.played.say({ type: 'ready' })
    const answer = node.archiver.restore(request, {})
    answer.catch(() => {})
    node.played.say({ type: 'begun', id: 1 })
    node.played.say({ type: 'call', id: 1, call: { method: 'install', args: ['a', restored] } })
    const next = async () => {
      node.played.end()
      await turnOfTheLoop()
      node.clock.advance(1_000)
      node.played.say({ type: 'ready' })
      await turnOfTheLoop()
    }
    const jobs = () => node.sent.filter(({ type }) => type === 'job').length
    return { answer, jobs, next, resolve, reject, ended, node }
  }

  test('is done once the switch is, with the answer that it would have had, and no other archiver does it again', async () => {
    const { answer, jobs, next, resolve, ended } = await switching()
    await next()
    expect(jobs()).toBe(1)
    resolve()
    expect(await answer).toEqual(result)
    expect([jobs(), ended]).toEqual([1, ['a']])
  })

  test('is done if the switch was, whose answer nobody has heard', async () => {
    const { answer, jobs, next, resolve } = await switching()
    resolve()
    await turnOfTheLoop()
    await next()
    expect(await answer).toEqual(result)
    expect(jobs()).toBe(1)
  })

  test('begins again in the next archiver if the switch fails', async () => {
    const { jobs, next, reject, node, answer } = await switching()
    await next()
    reject(new Error('The switch has failed.'))
    await turnOfTheLoop()
    expect(jobs()).toBe(2)
    node.played.say({ type: 'reply', id: 1, value: result, error: undefined })
    expect(await answer).toEqual(result)
  })

  test('begins again once if the switch fails after the next archiver has ended, too', async () => {
    const { jobs, next, reject } = await switching()
    await next()
    await next()
    reject(new Error('The switch has failed.'))
    await turnOfTheLoop()
    expect(jobs()).toBe(2)
  })

  test('is done also for a store that is closed meanwhile', async () => {
    const { answer, resolve, node } = await switching()
    const stopped = node.archiver.stop(1_000)
    node.played.end()
    resolve()
    await stopped
    expect(await answer).toEqual(result)
  })

  test('holds up no store that is closed for longer than that waits, however long its cell takes (invariant 13)', async () => {
    const { answer, node } = await switching()
    const stopped = node.archiver.stop(1_000)
    node.played.end()
    await turnOfTheLoop()
    node.clock.advance(5_000)
    await stopped
    expect((await rejectedBy(answer)).code).toBe('store_closed')
  })
})
