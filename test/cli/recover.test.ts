import fs from 'node:fs'
import path from 'node:path'
import { pathToFileURL } from 'node:url'
import { expect, test } from 'vitest'
import { StorePaths } from '../../src/base/files/store-paths.ts'
import { type ServedNode, Workplace } from '../support/cli/workplace.ts'
import { until } from '../support/until.ts'

const COUNT = expect.any(Number)

interface Status {
  recovery: null | { cells: number; recovered: number; failed: number; ended_at: string | null }
}

interface Recovered {
  recovered: number
  failed: number
  here_before: number
  databases: { id: string; recovered: boolean; code?: string }[]
}

/** Cells with an entry and a backup each. */
async function storedCells(node: ServedNode, count: number): Promise<string[]> {
  const ids: string[] = []
  for (let i = 0; i < count; i++) {
    const { body } = await node.request('POST', '/v1/databases', { name: `cell-${i}` })
    const id = body['id'] as string
    await node.request('PUT', `/v1/databases/${id}/kv/k`, { value: `value ${i}` })
    expect((await node.request('POST', `/v1/databases/${id}/backup`, {})).status).toBe(200)
    ids.push(id)
  }
  return ids
}

/** A place whose data directory is gone, and whose cells are in the object store alone. */
async function lostPlace(count: number): Promise<{ place: Workplace; ids: string[]; key: string }> {
  const place = new Workplace()
  const node = await place.serve('--workers', '0')
  const ids = await storedCells(node, count)
  await node.stop()
  fs.rmSync(place.dataDir, { recursive: true })
  return { place, ids, key: node.key }
}

function objectsOf(place: Workplace): string[] {
  return ['--object-store', pathToFileURL(place.objects).href]
}

function here(place: Workplace, ids: readonly string[]): string[] {
  const paths = new StorePaths(place.dataDir)
  return ids.filter((id) => fs.existsSync(paths.cell(id).database))
}

function damage(place: Workplace, id: string): void {
  const folder = path.join(place.objects, 'snapshots', id)
  for (const name of fs.readdirSync(folder).filter((each) => each.startsWith('backup-'))) {
    const bytes = fs.readFileSync(path.join(folder, name))
    const middle = Math.floor(bytes.length / 2)
    fs.writeFileSync(path.join(folder, name), bytes.fill(0x55, middle, middle + 64))
  }
}

async function expectValues(node: ServedNode, ids: readonly string[], key: string): Promise<void> {
  for (const [i, id] of ids.entries()) {
    const { body } = await node.request('GET', `/v1/databases/${id}/kv/k`, undefined, key)
    expect(body).toMatchObject({ value: `value ${i}` })
  }
}

test('recover --all brings back a lost store with all of its cells, and a node serves them', async () => {
  const { place, ids, key } = await lostPlace(5)
  const refused = await place.failure('recover', '--all')
  expect(refused).toMatchObject({ exit: 1, code: 'store_not_found' })
  expect(refused.message).toContain('--object-store')
  expect(await place.failure('recover', ids[0] as string, ...objectsOf(place))).toMatchObject({
    exit: 1,
    code: 'store_not_found',
  })
  expect(place.has('data')).toBe(false)

  const result = await place.json<Recovered>('recover', '--all', ...objectsOf(place))
  expect(result).toMatchObject({ recovered: 5, failed: 0, here_before: 0, bytes: COUNT, duration_ms: COUNT })
  expect(here(place, ids)).toEqual(ids)
  expect(await place.text('recover', '--all')).toMatch(/^0 recovered \(0 B in .* s\), 0 failed, 5 were here$/)
  expect(await place.text('recover', 'cell-3')).toContain('on this machine already')

  const node = await place.serve('--workers', '0')
  await expectValues(node, ids, key)
})

test('a cell that cannot be recovered is named with its code, and the exit code is 1', async () => {
  const { place, ids } = await lostPlace(4)
  const bad = ids[1] as string
  damage(place, bad)
  const { code, stdout, stderr } = await place.run('recover', '--all', '--json', ...objectsOf(place))
  expect({ code, stderr: stderr.includes('"code"') }).toEqual({ code: 1, stderr: false })
  const result = JSON.parse(stdout) as Recovered
  expect(result).toMatchObject({ recovered: 3, failed: 1 })
  expect(result.databases.filter(({ recovered }) => !recovered)).toMatchObject([
    { id: bad, name: 'cell-1', code: 'backup_corrupt' },
  ])
  expect(here(place, ids)).toEqual(ids.filter((id) => id !== bad))
  const people = await place.run('recover', '--all')
  expect(people).toMatchObject({
    code: 1,
    stdout: expect.stringMatching(
      new RegExp(`^${bad} \\(cell-1\\): FAILED: backup_corrupt: .*\n0 recovered .* 1 failed, 3 were`),
    ),
    stderr: expect.stringContaining('1 of 1 cells could not be recovered.'),
  })
})

test('recover asks the node that runs; without the background, only it and uses bring cells back', async () => {
  const { place, ids, key } = await lostPlace(4)
  const node = await place.serve('--workers', '1', '--recovery', 'first-use')
  await expectValues(node, ids.slice(0, 1), key)
  expect(await place.text('recover', 'cell-1')).toMatch(/^Recovered, .* in .* s\.$/)
  expect(here(place, ids)).toEqual(ids.slice(0, 2))
  expect(await place.json('recover', '--all')).toMatchObject({ recovered: 2, failed: 0, here_before: 2 })
  await expectValues(node, ids, key)
  expect((await place.json<Status & Record<string, unknown>>('status')).recovery).toBeNull()
})

test('a store that a node uses is not brought back in another directory', async () => {
  const place = new Workplace()
  const node = await place.serve('--workers', '0')
  await storedCells(node, 1)
  const refused = await place.failure('recover', '--all', '--data-dir', './other', ...objectsOf(place))
  expect(refused).toMatchObject({ exit: 1, code: 'object_store_in_use' })
  expect(place.has('other', 'catalog.db')).toBe(false)
})

test.each([
  ['with workers', '2'],
  ['without workers', '0'],
])(
  'a node %s brings all cells back without a request, also if it is killed in the middle',
  async (_, workers) => {
    const { place, ids, key } = await lostPlace(30)
    const flags = ['--workers', workers, '--restores-at-once', '2']
    const first = await place.serve(...flags)
    await until(() => here(place, ids).length > 2, 'some cells are back')
    first.child.kill('SIGKILL')
    await first.ended
    expect(here(place, ids).length).toBeLessThan(30)
    const second = await place.serve(...flags)
    await until(() => second.stderr.includes('being restored in the background'), 'the background has begun')
    // Both restore the same cells, at the same time.
    expect(await place.json('recover', '--all')).toMatchObject({ failed: 0 })
    await until(() => here(place, ids).length === 30, 'all cells are back')
    await until(
      async () => (await place.json<Status & Record<string, unknown>>('status')).recovery?.ended_at != null,
      'it says so',
    )
    const { recovery } = await place.json<Status & Record<string, unknown>>('status')
    expect(recovery).toMatchObject({ failed: 0, eta_ms: 0, failures: [] })
    expect(recovery?.recovered).toBe(recovery?.cells)
    expect(await place.text('status')).toContain('lost cells restored')
    expect(second.stderr).toContain('the background restore of cells has ended')
    await expectValues(second, ids, key)
  },
)
