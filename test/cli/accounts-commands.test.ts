import { expect, test } from 'vitest'
import { parseApiKey } from '../../src/auth/api-key.ts'
import { Workplace } from '../support/cli/workplace.ts'

/** Keys with scopes, and accounts, on a running node. */

async function serve() {
  const place = new Workplace()
  await place.serve()
  return place
}

test('keys create limits what a key may do, and keys list shows it', async () => {
  const place = await serve()
  const cell = await place.text('cells', 'create')
  const flags = ['--read-only', '--kv-only', '--cell', cell, '--expires', '30d']
  const key = await place.json('keys', 'create', '--name', 'narrow', ...flags)
  expect(key).toMatchObject({ access: 'read', surface: 'kv', cell_ids: [cell] })
  const days = (Date.parse(String(key['expires_at'])) - Date.parse(String(key['created_at']))) / 86_400_000
  expect(Math.round(days)).toBe(30)
  const at = await place.json('keys', 'create', '--owner', '--expires', '2999-01-31T12:00:00+01:00')
  expect(at).toMatchObject({ access: 'owner', expires_at: '2999-01-31T11:00:00.000Z' })
  const [heading, ...rows] = (await place.text('keys', 'list')).split('\n')
  expect(heading).toMatch(/^ID +NAME +HINT +MAY +CREATED +LAST USED +EXPIRES +ACCOUNT$/)
  expect(rows.join('\n')).toMatch(/narrow .* read kv in 1 cell {2}/)
  for (const wrong of [
    ['--owner', '--read-only'],
    ['--expires', 'soon'],
    ['--expires', '5'],
  ])
    expect(await place.failure('keys', 'create', ...wrong)).toMatchObject({ exit: 2 })
})

test('keys rotate prints the new key, and says until when the old one works', async () => {
  const place = await serve()
  const { id } = await place.json('keys', 'create', '--name', 'ci')
  const key = await place.text('keys', 'rotate', String(id), '--grace', '1h')
  expect(parseApiKey(key)).toBe(key)
  const rotated = await place.json('keys', 'rotate', String(id), '--now', '--expires', '7d')
  expect(rotated).toMatchObject({ name: 'ci', replaces: { id } })
  expect(await place.json<object[]>('keys', 'list')).not.toContainEqual(expect.objectContaining({ id }))
  expect(await place.failure('keys', 'rotate', String(id), '--now', '--grace', '1h')).toMatchObject({
    exit: 2,
  })
})

test('accounts are made, listed, suspended, resumed and bounded', async () => {
  const place = await serve()
  const id = await place.text('accounts', 'create', '--name', 'acme')
  expect(await place.json('accounts', 'list')).toMatchObject({ accounts: [{}, { id, name: 'acme' }] })
  expect(await place.text('accounts', 'suspend', id)).toMatch(`Account ${id} is suspended since 2`)
  expect(await place.text('accounts', 'list')).toMatch(new RegExp(`^${id} +acme +\\S+ +2\\S+Z +default`, 'm'))
  expect(await place.text('accounts', 'resume', id)).toBe(`Account ${id} is not suspended.`)
  await place.text('accounts', 'quotas', id, '--cells', '3', '--bytes', '100MiB')
  expect(await place.text('accounts', 'quotas', id)).toMatch(/\n3 +default +104857600 +default$/)
  const changed = await place.json('accounts', 'quotas', id, '--bytes', 'default', '--rate', '50')
  const quotas = { cells_max: 3, api_keys_max: null, bytes_max: null, requests_per_second: 50 }
  expect(changed).toMatchObject({ id, quotas })
  expect(await place.text('accounts', 'quotas', id)).toMatch(/^CELLS .*\n3 +default +default +50$/)
  for (const [flag, wrong] of [
    ['--cells', '0'],
    ['--cells', '3KiB'],
    ['--bytes', '0MiB'],
    ['--bytes', '100MB'],
  ] as const)
    expect(await place.failure('accounts', 'quotas', id, flag, wrong)).toMatchObject({ exit: 2 })
  expect(await place.failure('accounts', 'suspend', 'x')).toMatchObject({
    exit: 1,
    code: 'account_not_found',
    message: expect.stringContaining('`cellstore accounts list`'),
  })
})
