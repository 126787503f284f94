import fs from 'node:fs'
import path from 'node:path'
import { expect, test } from 'vitest'
import { parseApiKey } from '../../../src/auth/api-key.ts'
import { type ServedNode, Workplace } from '../../support/cli/workplace.ts'

const TIME = expect.stringMatching(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/)

/** A node, and another machine: a folder without a store, whose commands know the node's URL and a key. */
async function remote(): Promise<{ node: ServedNode; home: Workplace; far: Workplace }> {
  const home = new Workplace()
  const node = await home.serve()
  return { node, home, far: new Workplace({ CELLSTORE_URL: node.address, CELLSTORE_KEY: node.key }) }
}

test('keys, cells, sql, backup, restore and backups list work on a remote node, and touch no directory here', async () => {
  const { node, far } = await remote()
  const created = await far.json('keys', 'create', '--name', 'laptop')
  expect(created).toEqual({
    id: expect.any(String),
    key: expect.any(String),
    name: 'laptop',
    hint: expect.any(String),
    created_at: TIME,
    access: 'write',
    cell_ids: null,
    surface: 'all',
    expires_at: null,
  })
  const key = parseApiKey(created['key'] as string) as string
  const withKey = { env: { CELLSTORE_KEY: key } }
  expect((await far.runWith(withKey, 'keys', 'list')).stdout).toMatch(
    /^ID +NAME +HINT .* ACCOUNT\n.* laptop .* yours\n.* first key .* yours\n$/,
  )
  const cell = await far.text('cells', 'create', '--name', 'acme')
  const known = {
    status: 'ok',
    size_bytes: expect.any(Number),
    // Its first version is stored within seconds.
    backed_up_to: expect.toBeOneOf([null, TIME]),
    last_stored_at: expect.toBeOneOf([null, TIME]),
    last_proven: null,
  }
  const listed = { id: cell, name: 'acme', created_at: TIME, ...known }
  expect(await far.json('cells', 'list')).toEqual({ databases: [listed], next_cursor: null })

  const script = 'CREATE TABLE t (a);\nBEGIN;\nINSERT INTO t VALUES (1);\nINSERT INTO t VALUES (2);\nCOMMIT;'
  expect(await far.runWith({ input: script }, 'sql', cell)).toMatchObject({ code: 0, stderr: '' })
  expect(await far.text('sql', cell, 'SELECT a + ? AS n FROM t', '0.5', '--csv')).toBe('n\n1.5\n2.5')
  const failed = await far.runWith({ input: 'SELECT 1;\nSELECT b FROM t' }, 'sql', cell)
  expect(failed).toMatchObject({ code: 1, stderr: 'cellstore: Statement 2, at line 2: no such column: b\n' })

  const { version } = await far.json<{ version: string }>('backup', cell)
  await far.text('sql', cell, 'DELETE FROM t')
  const second = await far.json('backup', cell, '--incremental')
  expect(second).toMatchObject({ kind: 'incremental', base_version: version })
  expect(await far.text('backups', 'list', cell)).toMatch(/^VERSION .*\n.* incremental .*\n.* snapshot /)
  expect(await far.text('restore', cell, '--version', version)).toMatch(
    /^Restored snapshots\/.*\.\nTo undo it: cellstore restore [\da-f-]{36} --at \d.*Z$/,
  )
  expect(await far.text('sql', cell, 'SELECT count(*) AS n FROM t', '--csv')).toBe('n\n2')
  expect(await far.json('cells', 'delete', cell)).toEqual({ id: cell, deleted: true })
  expect(await far.json('restore', cell)).toMatchObject({ restored: true })
  expect(await far.text('sql', cell, 'SELECT count(*) AS n FROM t', '--csv')).toBe('n\n2')

  expect(await far.json('keys', 'revoke', created['id'] as string)).toMatchObject({ revoked: true })
  const refused = await far.runWith(withKey, 'cells', 'list', '--json')
  expect(refused).toMatchObject({ code: 1, stdout: '' })
  expect(JSON.parse(refused.stderr)).toMatchObject({ code: 'unauthorized' })
  expect(fs.readdirSync(far.folder)).toEqual([])
  expect(await node.stop()).toEqual([0, null])
})

test('a command line that does not say which store it means is refused, with what to do', async () => {
  const { node, home, far } = await remote()
  const refused = async (place: Workplace, ...args: string[]) => {
    const { exit, message } = await place.failure(...args)
    expect(exit).toBe(2)
    return message
  }
  expect(await refused(far, 'cells', 'list', '--data-dir', 'data')).toMatch(/--data-dir .* CELLSTORE_URL/)
  expect(await refused(home, 'cells', 'list', '--url', node.address, '--object-store', 'file://./x')).toMatch(
    /--object-store .* --url/,
  )
  expect(await refused(far, 'backups', 'verify', '--all')).toMatch(
    /only the owner .* leave out CELLSTORE_URL/,
  )
  expect(await refused(far, 'keys', 'create', '--new-account')).toMatch(
    /Only the owner .* leave out --new-account/,
  )
  expect(await refused(home, 'cells', 'list', '--key-file', 'key')).toMatch(/--key-file goes with --url/)
  expect(await refused(home, 'cells', 'list', '--url', node.address)).toMatch(/set CELLSTORE_KEY/)
  expect(await refused(home, 'cells', 'list', '--url', 'http://192.0.2.1')).toMatch(/plain http/)
  fs.writeFileSync(path.join(home.folder, 'key'), node.key)
  expect(await home.json('cells', 'list', '--url', node.address, '--key-file', 'key')).toMatchObject({
    databases: [],
  })
})
