import { describe, expect } from 'vitest'
import { ConsoleNode, signIn, test, useBrowser } from '../support/console/browser.ts'

useBrowser()

/** Takes about a second. */
const SLOW_SQL =
  'WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 4000000) SELECT max(i) FROM n'

describe('keys', () => {
  test('are made with a scope, shown once, rotated and revoked', async () => {
    const node = await ConsoleNode.start()
    const page = await node.signedIn('#/keys')
    await page.getByRole('button', { name: 'New key' }).click()
    await page.getByLabel('Name', { exact: true }).fill('ci')
    await page.getByLabel('Access').selectOption('read')
    await page.getByRole('dialog').getByRole('button', { name: 'Create' }).click()
    const key = await page.getByTestId('new-key').innerText()
    expect(key).toMatch(/^cell_sk_\w{49}$/)
    expect((await node.node.request('GET', '/v1/databases', undefined, key)).status).toBe(200)
    expect((await node.node.request('POST', '/v1/databases', {}, key)).status).toBe(403)
    await page.getByRole('dialog').getByRole('button', { name: 'Close' }).click()
    expect(await page.content()).not.toContain(key)
    await page.getByRole('row', { name: /ci/ }).getByText('read', { exact: true }).waitFor()

    await page.getByRole('button', { name: 'Rotate ci' }).click()
    await page.getByLabel(/^Hours/).fill('0')
    await page.keyboard.press('Enter')
    const next = await page.getByTestId('new-key').innerText()
    await page.keyboard.press('Escape')
    expect((await node.node.request('GET', '/v1/databases', undefined, key)).status).toBe(401)
    await page.getByRole('button', { name: 'Revoke ci' }).click()
    await page.getByRole('dialog').getByRole('button', { name: 'Revoke' }).click()
    await page.getByRole('dialog').waitFor({ state: 'detached' })
    expect((await node.node.request('GET', '/v1/databases', undefined, next)).status).toBe(401)
  })

  test('the key of the session can be revoked, which ends it', async () => {
    const node = await ConsoleNode.start()
    const made = await node.ask('POST', '/api-keys', { name: 'mine' })
    const page = await node.signedIn('#/keys', { key: String(made['key']) })
    await page.getByRole('row', { name: /mine/ }).getByText('signed in').waitFor()
    await page.getByRole('button', { name: 'Revoke mine' }).click()
    await page.getByText('You have signed in with this key.').waitFor()
    await page.getByRole('dialog').getByRole('button', { name: 'Revoke' }).click()
    await page.getByRole('alert').getByText('The session has ended').waitFor()
  })
})

test('the owner makes accounts with keys and quotas, suspends and resumes them', async () => {
  const node = await ConsoleNode.start()
  const owner = await node.place.json<{ key: string }>('keys', 'create', '--owner')
  const page = await node.signedIn('#/accounts', { key: owner.key })
  await page.getByRole('button', { name: 'New account' }).click()
  await page.getByLabel('Name', { exact: true }).fill('acme')
  await page.keyboard.press('Enter')
  await page.getByRole('button', { name: 'Quotas: acme' }).click()
  await page.getByLabel('Cells').fill('1')
  await page.keyboard.press('Enter')
  await page.getByRole('cell', { name: 'cells 1' }).waitFor()
  await page.getByRole('button', { name: 'New key: acme' }).click()
  await page.getByRole('dialog').getByRole('button', { name: 'Create' }).click()
  const key = await page.getByTestId('new-key').innerText()
  await page.keyboard.press('Escape')
  await node.ask('POST', '/databases', { name: 'only' }, key)

  const tenant = await node.signedIn('', { key })
  await tenant.getByRole('link', { name: 'only' }).waitFor()
  expect(await tenant.getByRole('link', { name: 'Accounts' }).count()).toBe(0)
  await page.getByRole('button', { name: 'Suspend: acme' }).click()
  await page.getByText('suspended').waitFor()
  await tenant.getByRole('link', { name: 'only' }).click()
  await tenant.getByRole('alert').getByText('the account is suspended').waitFor()
  await page.getByRole('button', { name: 'Resume: acme' }).click()
  await expect.poll(() => page.getByText('suspended').count()).toBe(0)
  await signIn(tenant, key)
})

test('the node page shows the health of the node, and how it answers', async () => {
  const node = await ConsoleNode.start()
  const page = await node.signedIn('#/node')
  await page.getByText('serves', { exact: true }).waitFor()
  await page.getByText('ready', { exact: true }).waitFor()
  await page.locator('canvas').waitFor()
  const requests = page.getByRole('region', { name: 'Requests of this page' })
  await requests.getByText('GET /healthz').first().waitFor()
  await requests
    .getByText(/^[0-9a-f-]{36}$/)
    .first()
    .waitFor()
})

test('the node page shows its owner the whole node', async () => {
  const node = await ConsoleNode.start()
  const id = await node.cell('acme')
  await node.sql(id, 'CREATE TABLE t (a)')
  const owner = await node.place.json<{ key: string }>('keys', 'create', '--owner')
  const page = await node.signedIn('#/node', { key: owner.key })
  const whole = page.getByRole('region', { name: 'The whole node' })
  await whole.getByText('1, 1 open').waitFor()
  await whole.getByText('answers', { exact: true }).waitFor()
  await page.getByRole('region', { name: 'Busiest cells' }).getByText('acme').first().waitFor()
  await page.getByText('None since the start.').waitFor()
  await page
    .getByRole('region', { name: 'Requests of all accounts' })
    .getByText('POST /v1/databases', { exact: true })
    .waitFor()
  await page.getByText('None of late').waitFor()
  await node.sql(id, SLOW_SQL)
  const slow = page.getByRole('region', { name: 'Slow statements' })
  await slow.getByRole('cell', { name: id }).waitFor()
  await page.getByRole('region', { name: 'Commits a second' }).locator('canvas').waitFor()
  // Anybody else is told whose it is.
  const other = await node.signedIn('#/node')
  await other.getByText('The whole node is for its owner').waitFor()
})
