import fs from 'node:fs'
import path from 'node:path'
import { pathToFileURL } from 'node:url'
import { describe, expect, test } from 'vitest'
import { type ServedNode, Workplace } from '../support/cli/workplace.ts'
import { HttpWriters } from '../support/faults/http-writers.ts'
import { descendantsOf } from '../support/processes.ts'
import { seededRandom } from '../support/seed.ts'
import { filesBelow } from '../support/temp-directory.ts'
import { until } from '../support/until.ts'

/** A cell with one entry, which is backed up. */
async function writtenCell(node: ServedNode): Promise<string> {
  const { body } = await node.request('POST', '/v1/databases', { name: 'acme' })
  const base = `/v1/databases/${body['id']}`
  await put(node, base, '1')
  return base
}

async function put(node: ServedNode, base: string, value: string, key = node.key): Promise<void> {
  expect((await node.request('PUT', `${base}/kv/a`, { value }, key)).status).toBe(200)
  expect((await node.request('POST', `${base}/backup`, undefined, key)).status).toBe(200)
}

async function storedValue(node: ServedNode, base: string, key = node.key): Promise<unknown> {
  return (await node.request('GET', `${base}/kv/a`, undefined, key)).body['value']
}

describe('Two nodes with directories of their own, on one object store', () => {
  test('the second is refused and says who has it; once the first has stopped it goes on from there', async () => {
    const place = new Workplace()
    const first = await place.serve()
    const base = await writtenCell(first)
    const { code, stderr } = await place.run('serve', '--port', '0', '--data-dir', 'other')
    expect(code).toBe(1)
    expect(stderr).toContain(`is in use by process ${first.pid} on `)
    expect(stderr).toContain('--take-over')
    expect(place.has('other')).toBe(false)
    await put(first, base, '2')
    await first.stop()
    const second = await place.serve('--data-dir', 'other')
    expect(await storedValue(second, base, first.key)).toBe('2')
    await second.stop()
    // The first directory has missed what the second one may have written.
    const old = await place.run('serve', '--port', '0')
    expect(old.code).toBe(1)
    expect(old.stderr).toContain('holds history that this directory did not write')
  })

  test('of two that start at the same moment exactly one serves', async () => {
    const place = new Workplace()
    const starts = ['one', 'two'].map((directory) => place.serve('--data-dir', directory))
    const outcomes = await Promise.allSettled(starts)
    expect(outcomes.map(({ status }) => status).sort()).toEqual(['fulfilled', 'rejected'])
    const loser = outcomes.find((each) => each.status === 'rejected')
    expect(String(loser?.reason)).toMatch(/is in use by process \d+/)
    const winner = outcomes.find((each) => each.status === 'fulfilled')
    await winner?.value.stop()
  })

  test('one that is stopped by SIGSTOP for longer than its lease ends when it is continued, and writes nothing', async () => {
    const place = new Workplace()
    const first = await place.serve('--lease', '3s')
    const base = await writtenCell(first)
    first.child.kill('SIGSTOP')
    let second: ServedNode | undefined
    // It is refused as long as the first one's record is younger than the lease.
    while (second === undefined) {
      second = await place.serve('--lease', '3s', '--data-dir', 'other').catch((error: Error) => {
        expect(error.message).toContain('is in use by process')
        return undefined
      })
    }
    expect(second.stderr).toContain('may still be in use by')
    await put(second, base, '2', first.key)
    const fence = filesBelow(path.join(place.objects, 'snapshots'))
    first.child.kill('SIGCONT')
    expect(await first.ended).toEqual([1, null])
    expect(first.stderr).toContain('Another node has taken over')
    expect(filesBelow(path.join(place.objects, 'snapshots'))).toEqual(fence)
    expect(await storedValue(second, base, first.key)).toBe('2')
    await second.stop()
  })

  test('with --take-over the second serves at once, and the first ends with its next backup', async () => {
    const place = new Workplace()
    const first = await place.serve()
    const base = await writtenCell(first)
    const second = await place.serve('--data-dir', 'other', '--take-over')
    expect(await storedValue(second, base, first.key)).toBe('1')
    await first.request('PUT', `${base}/kv/a`, { value: 'late' })
    expect(await first.request('POST', `${base}/backup`)).toMatchObject({
      status: 503,
      body: { code: 'shutting_down' },
    })
    expect(await first.ended).toEqual([1, null])
    await put(second, base, '2', first.key)
    expect(await storedValue(second, base, first.key)).toBe('2')
    await second.stop()
  })
})

const REMOTE = ['--durability', 'remote', '--lease', '3s']

/** Writes to two cells, each change acknowledged once it is in the object store. */
async function remoteWriters(node: ServedNode) {
  const writers = await HttpWriters.create(node, 2)
  const random = seededRandom()
  return {
    start: (on: ServedNode) => writers.start(on, 2, random),
    check: (on: ServedNode) => writers.check(on),
    willBeStopped: () => {
      writers.wasStopped = true
    },
    untilMore: async (more: number) => {
      const goal = writers.acknowledged + more
      await until(() => writers.acknowledged >= goal, 'more is acknowledged')
    },
  }
}

/** The second node is refused as long as the first one's record is younger than the lease. */
async function serveAfterLease(place: Workplace, directory: string): Promise<ServedNode> {
  for (;;) {
    const node = await place.serve(...REMOTE, '--data-dir', directory).catch((error: Error) => {
      expect(error.message).toContain('is in use by process')
      return undefined
    })
    if (node !== undefined) return node
  }
}

describe('Two nodes under changes with the durability remote lose none that was acknowledged:', () => {
  test.each([
    ['the first is killed, and the second goes on', 'data', 'other'],
    ['the other way round', 'other', 'data'],
  ])(
    'in turn, %s; an old directory is refused, and adopts what the other one wrote',
    async (_how, one, two) => {
      const place = new Workplace()
      const first = await place.serve(...REMOTE, '--data-dir', one)
      const writers = await remoteWriters(first)
      const stop = writers.start(first)
      await writers.untilMore(5)
      const refused = await place.run('serve', '--port', '0', ...REMOTE, '--data-dir', two)
      expect(refused.stderr).toContain(`is in use by process ${first.pid} on `)
      await writers.untilMore(5)
      await first.stop('SIGKILL')
      await stop()
      const second = await place.serve(...REMOTE, '--data-dir', two)
      await writers.check(second)
      const stopSecond = writers.start(second)
      await writers.untilMore(5)
      await second.stop('SIGKILL')
      await stopSecond()
      const old = await place.run('serve', '--port', '0', ...REMOTE, '--data-dir', one)
      expect(old.code).toBe(1)
      expect(old.stderr).toContain('holds history that this directory did not write')
      const adopted = await place.serve(...REMOTE, '--data-dir', one, '--adopt')
      await writers.check(adopted)
      expect(await adopted.stop()).toEqual([0, null])
    },
  )

  test.each([
    ['alone', () => []],
    ['with its workers and its archiver', descendantsOf],
  ])(
    'one that is stopped by SIGSTOP, %s, acknowledges nothing more once it is continued',
    async (_how, others) => {
      const place = new Workplace()
      const first = await place.serve(...REMOTE)
      const writers = await remoteWriters(first)
      const stop = writers.start(first)
      await writers.untilMore(5)
      const stopped = [first.pid, ...others(first.pid)]
      writers.willBeStopped()
      for (const pid of stopped) process.kill(pid, 'SIGSTOP')
      const second = await serveAfterLease(place, 'other')
      await writers.check(second)
      const stopSecond = writers.start(second)
      await writers.untilMore(5)
      for (const pid of stopped) process.kill(pid, 'SIGCONT')
      expect(await first.ended).toEqual([1, null])
      expect(first.stderr).toContain('Another node has taken over')
      await writers.untilMore(5)
      await Promise.all([stop(), stopSecond()])
      await writers.check(second)
      expect(await second.stop()).toEqual([0, null])
    },
  )

  test('one takes over while the other one writes', async () => {
    const place = new Workplace()
    const first = await place.serve(...REMOTE)
    const writers = await remoteWriters(first)
    const stop = writers.start(first)
    await writers.untilMore(5)
    const second = await place.serve(...REMOTE, '--data-dir', 'other', '--take-over')
    const stopSecond = writers.start(second)
    expect(await first.ended).toEqual([1, null])
    expect(first.stderr).toContain('Another node has taken over')
    await writers.untilMore(5)
    await Promise.all([stop(), stopSecond()])
    await writers.check(second)
    expect(await second.stop()).toEqual([0, null])
  })

  test('an old disk that is put back after more was shipped is refused, and adopts it', async () => {
    const place = new Workplace()
    const first = await place.serve(...REMOTE)
    const writers = await remoteWriters(first)
    const stop = writers.start(first)
    await writers.untilMore(5)
    await first.stop('SIGKILL')
    await stop()
    const copy = path.join(place.folder, 'copy')
    fs.cpSync(place.dataDir, copy, { recursive: true })
    const later = await place.serve(...REMOTE)
    const stopLater = writers.start(later)
    await writers.untilMore(5)
    await later.stop('SIGKILL')
    await stopLater()
    fs.rmSync(place.dataDir, { recursive: true })
    fs.renameSync(copy, place.dataDir)
    const refused = await place.run('serve', '--port', '0', ...REMOTE)
    expect(refused.code).toBe(1)
    expect(refused.stderr).toContain('holds history that this directory did not write')
    const again = await place.serve(...REMOTE, '--adopt')
    await writers.check(again)
    expect(await again.stop()).toEqual([0, null])
  })
})

describe('A node', () => {
  test('starts at once after it was killed and its directory was lost', async () => {
    const place = new Workplace()
    const first = await place.serve()
    const base = await writtenCell(first)
    await first.stop('SIGKILL')
    fs.rmSync(place.dataDir, { recursive: true })
    const again = await place.serve()
    expect(again.stderr).not.toContain('may still be in use')
    expect(await storedValue(again, base, first.key)).toBe('1')
    await again.stop()
  })

  test('does not start on an old disk that was put back; with --adopt it goes on from the object store', async () => {
    const place = new Workplace()
    const first = await place.serve()
    const base = await writtenCell(first)
    await first.stop()
    const copy = path.join(place.folder, 'copy')
    fs.cpSync(place.dataDir, copy, { recursive: true })
    const later = await place.serve()
    await put(later, base, '2', first.key)
    await later.stop()
    fs.rmSync(place.dataDir, { recursive: true })
    fs.renameSync(copy, place.dataDir)

    const refused = await place.failure('cells', 'list')
    expect(refused).toMatchObject({ exit: 1, code: 'store_outdated' })
    expect(refused.message).toMatch(/--adopt.*--take-over/)
    const again = await place.serve('--adopt')
    expect(await storedValue(again, base, first.key)).toBe('2')
    await again.stop()
    const asides = fs.readdirSync(place.dataDir).filter((name) => name.startsWith('set-aside-'))
    expect(asides).toHaveLength(1)
    expect(place.has('data', asides[0] as string, 'catalog.db')).toBe(true)
    // Nothing is adopted twice.
    const last = await place.serve('--adopt')
    expect(await storedValue(last, base, first.key)).toBe('2')
    await last.stop()
    expect(fs.readdirSync(place.dataDir).filter((name) => name.startsWith('set-aside-'))).toEqual(asides)
  })

  test('and the commands on its directory remember the object store, and no command brings a store back', async () => {
    const place = new Workplace()
    const elsewhere = pathToFileURL(path.join(place.folder, 'elsewhere')).href
    const first = await place.serve('--object-store', elsewhere)
    const base = await writtenCell(first)
    await first.stop()
    const backups = await place.json<{ backups: unknown[] }>('backups', 'list', path.basename(base))
    expect(backups.backups).toHaveLength(1)
    const again = await place.serve()
    expect(await storedValue(again, base, first.key)).toBe('1')
    await again.stop()
    expect(place.has('objects')).toBe(false)
    const other = pathToFileURL(path.join(place.folder, 'other')).href
    expect(await place.failure('serve', '--port', '0', '--object-store', other)).toMatchObject({
      exit: 2,
      code: 'invalid_setting',
      message: expect.stringMatching(/elsewhere.*--move-object-store/),
    })

    const before = filesBelow(path.join(place.folder, 'elsewhere'))
    expect(
      await place.failure('cells', 'list', '--data-dir', 'empty', '--object-store', elsewhere),
    ).toMatchObject({ exit: 1, code: 'store_not_found' })
    expect(place.has('empty')).toBe(false)
    expect(filesBelow(path.join(place.folder, 'elsewhere'))).toEqual(before)
  })
})
