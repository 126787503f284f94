import fs from 'node:fs'
import { describe, expect, test } from 'vitest'
import { FileObjectStore } from '../../src/backup/object-store/file/file-object-store.ts'
import { storedLogs } from '../support/backup/stored-logs.ts'
import { type ServedNode, Workplace } from '../support/cli/workplace.ts'
import { startS3rver } from '../support/s3/s3rver.ts'
import { filesBelow } from '../support/temp-directory.ts'
import { until } from '../support/until.ts'

/** A newcomer's whole session up to the loss of everything local, and what should be there afterwards. */
async function workAndLoseAll(place: Workplace, node: ServedNode): Promise<string> {
  const { body: cell } = await node.request('POST', '/v1/databases', { name: 'acme' })
  const base = `/v1/databases/${cell['id']}`
  const sql = async (text: string, params: unknown[] = []) =>
    expect((await node.request('POST', `${base}/sql`, { sql: text, params })).status).toBe(200)
  await sql('CREATE TABLE users (id INTEGER PRIMARY KEY, name TEXT, age INTEGER)')
  await sql('INSERT INTO users (name, age) VALUES (?, ?), (?, ?)', ['Ann', 31, 'Bob', 27])
  await node.request('PUT', `${base}/kv/session:1`, { value: 'signed in', ttl_seconds: 3_600 })
  await node.request('PUT', `${base}/kv/plan`, { value: 'free' })
  const snapshot = await node.request('POST', `${base}/backup`)
  expect(snapshot).toMatchObject({ status: 200, body: { kind: 'snapshot' } })
  await sql('INSERT INTO users (name, age) VALUES (?, ?)', ['Cid', 45])
  await node.request('PUT', `${base}/kv/plan`, { value: 'paid' })
  const incremental = await node.request('POST', `${base}/backup/incr`)
  expect(incremental).toMatchObject({
    status: 200,
    body: { kind: 'incremental', base_version: snapshot.body['version'] },
  })
  await node.stop('SIGKILL')
  fs.rmSync(place.dataDir, { recursive: true })
  return base
}

/** The same without a request for a backup: what the node does unasked has to be enough. */
async function workAndLoseAllUnasked(place: Workplace, node: ServedNode): Promise<string> {
  const ask = async (method: string, route: string, body: object) => {
    const answer = await node.request(method, route, body)
    expect(answer.status).toBeLessThan(300)
    return answer.body
  }
  const id = String((await ask('POST', '/v1/databases', { name: 'acme' }))['id'])
  const base = `/v1/databases/${id}`
  const sql = (text: string, params: unknown[] = []) => ask('POST', `${base}/sql`, { sql: text, params })
  await sql('CREATE TABLE users (id INTEGER PRIMARY KEY, name TEXT, age INTEGER)')
  await sql('INSERT INTO users (name, age) VALUES (?, ?), (?, ?)', ['Ann', 31, 'Bob', 27])
  await ask('PUT', `${base}/kv/plan`, { value: 'free' })
  const versions = () => filesBelow(place.objects).filter((file) => file.includes(`${id}/backup-`))
  await until(() => versions().length > 0, 'the node has stored a version of the cell')
  await ask('PUT', `${base}/kv/session:1`, { value: 'signed in', ttl_seconds: 3_600 })
  await ask('PUT', `${base}/kv/plan`, { value: 'paid' })
  const last = Date.now()
  await sql('INSERT INTO users (name, age) VALUES (?, ?)', ['Cid', 45])
  await until(() => isShipped(place, id, last), 'the node has shipped the last change')
  expect(versions()).toHaveLength(1)
  await node.stop('SIGKILL')
  fs.rmSync(place.dataDir, { recursive: true })
  return base
}

/** Whether the object store has a commit of the cell that was made then or later. */
async function isShipped(place: Workplace, cellId: string, since: number): Promise<boolean> {
  const logs = await storedLogs(new FileObjectStore({ root: place.objects }))
  const pieces = logs.flatMap(({ manifest }) =>
    manifest.cells.filter(({ cell_id }) => cell_id === cellId).flatMap((cell) => cell.pieces),
  )
  return pieces.some(({ commits }) => (commits.at(-1)?.[1] ?? 0) >= since)
}

async function expectAllThere(node: ServedNode, base: string, key: string): Promise<void> {
  const get = (method: string, route: string, body?: unknown) =>
    node.request(method, `${base}${route}`, body, key)
  // The cell's first use brings it back.
  expect(await get('POST', '/sql', { sql: 'SELECT name, age FROM users ORDER BY id' })).toMatchObject({
    status: 200,
    body: {
      rows: [
        { name: 'Ann', age: 31 },
        { name: 'Bob', age: 27 },
        { name: 'Cid', age: 45 },
      ],
    },
  })
  expect(await get('GET', '/kv/plan')).toMatchObject({ body: { value: 'paid', ttl_seconds: -1 } })
  const session = await get('GET', '/kv/session:1')
  expect(session).toMatchObject({ status: 200, body: { value: 'signed in' } })
  expect(session.body['ttl_seconds']).toBeGreaterThan(3_400)
  expect(session.body['ttl_seconds']).toBeLessThanOrEqual(3_600)
}

describe('a newcomer loses everything but the object store', () => {
  test('a folder: the same key, and every row and entry, are there at first use', async () => {
    const place = new Workplace()
    const first = await place.serve()
    const base = await workAndLoseAll(place, first)
    const second = await place.serve()
    await expectAllThere(second, base, first.key)
    expect(await second.stop()).toEqual([0, null])
  })

  test('a folder, and nobody has asked for a backup: the same', async () => {
    const place = new Workplace()
    const first = await place.serve()
    const base = await workAndLoseAllUnasked(place, first)
    const second = await place.serve()
    await expectAllThere(second, base, first.key)
    expect(await second.request('GET', base, undefined, first.key)).toMatchObject({ body: { name: 'acme' } })
    expect(await second.stop()).toEqual([0, null])
  })

  test('S3: the same', async () => {
    const s3 = await startS3rver()
    try {
      const place = new Workplace({
        CELLSTORE_OBJECT_STORE: `s3://${s3.bucket}/cells?endpoint=${s3.endpoint}&region=us-east-1&path_style=true`,
        AWS_ACCESS_KEY_ID: s3.credentials.accessKeyId,
        AWS_SECRET_ACCESS_KEY: s3.credentials.secretAccessKey,
      })
      const first = await place.serve()
      const base = await workAndLoseAll(place, first)
      const second = await place.serve()
      await expectAllThere(second, base, first.key)
      expect(await second.stop()).toEqual([0, null])
    } finally {
      await s3.stop()
    }
  })
})
