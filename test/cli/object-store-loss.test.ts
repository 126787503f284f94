import fs from 'node:fs'
import path from 'node:path'
import { describe, expect, test } from 'vitest'
import { Workplace } from '../support/cli/workplace.ts'
import { freePort } from '../support/free-port.ts'

describe('an object store that does not answer (invariant 14)', () => {
  test('with an empty data directory: no key, no account, an exit that says why; with the store back: the old ones', async () => {
    const place = new Workplace()
    const node = await place.serve()
    const { body: cell } = await node.request('POST', '/v1/databases', { name: 'acme' })
    const base = `/v1/databases/${cell['id']}`
    await node.request('PUT', `${base}/kv/a`, { value: '1' })
    await node.request('POST', `${base}/backup`)
    await node.stop()
    fs.rmSync(place.dataDir, { recursive: true })

    const aside = `${place.objects}.aside`
    fs.renameSync(place.objects, aside)
    fs.writeFileSync(place.objects, 'no folder any more')
    const { code, stdout, stderr } = await place.run('serve', '--port', '0', '--object-store-wait', '1s')
    expect({ code, stdout }).toEqual({ code: 1, stdout: '' })
    expect(stderr.trimEnd().split('\n').at(-1)).toMatch(
      /^cellstore: There is no store in .*, so nothing was made\. .*$/,
    )
    expect(stderr).toContain('trying again')
    expect(place.has('data')).toBe(false)
    expect(await place.failure('keys', 'list', '--object-store-wait', '1s')).toMatchObject({
      exit: 1,
      code: 'store_not_found',
    })

    fs.rmSync(place.objects)
    fs.renameSync(aside, place.objects)
    const again = await place.serve()
    expect(again.key).toBe('')
    expect(await again.request('GET', '/v1/databases', undefined, node.key)).toMatchObject({
      status: 200,
      body: { databases: [cell] },
    })
    expect(await again.request('GET', `${base}/kv/a`, undefined, node.key)).toMatchObject({
      body: { value: '1' },
    })
  })

  test('S3 where nobody listens: the same, within its deadline', async () => {
    const place = new Workplace({
      CELLSTORE_OBJECT_STORE: `s3://bucket/cells?endpoint=http://127.0.0.1:${await freePort()}`,
      AWS_ACCESS_KEY_ID: 'x',
      AWS_SECRET_ACCESS_KEY: 'secret-of-the-test',
    })
    // The first request loads the AWS SDK within this time, and a second one must follow.
    const { code, stdout, stderr } = await place.run('serve', '--port', '0', '--object-store-wait', '3s')
    expect({ code, stdout }).toEqual({ code: 1, stdout: '' })
    expect(stderr).toMatch(/\ncellstore: .*\n$/)
    expect(stderr).not.toContain('secret-of-the-test')
    expect(fs.readdirSync(place.folder)).toEqual([])
  })

  test('with the catalog here, the node serves and says so', async () => {
    const place = new Workplace()
    const node = await place.serve()
    await node.stop()
    fs.rmSync(place.objects, { recursive: true })
    fs.writeFileSync(place.objects, 'no folder any more')
    const again = await place.serve()
    expect(again.stderr).toContain('the object store does not answer')
    expect((await again.request('POST', '/v1/databases', {}, node.key)).status).toBe(201)
    expect((await fetch(`${again.address}/readyz`)).status).toBe(200)
  })
})

test("another store's prefix is refused, and nothing is made or changed", async () => {
  const place = new Workplace()
  const node = await place.serve()
  await node.stop()
  const other = new Workplace()
  await (await other.serve()).stop()
  const before = fs.readdirSync(path.join(place.objects, 'snapshots')).sort()

  other.env['CELLSTORE_OBJECT_STORE'] = `file://${place.objects}`
  const { code, stdout, stderr } = await other.run('serve', '--port', '0', '--move-object-store')
  expect({ code, stdout }).toEqual({ code: 1, stdout: '' })
  expect(stderr).toMatch(
    /^cellstore: .* belongs to store [-0-9a-f]{36}, but this is store [-0-9a-f]{36}\..*$/m,
  )
  expect(fs.readdirSync(path.join(place.objects, 'snapshots')).sort()).toEqual(before)
  expect((await place.serve()).key).toBe('')
})
