import fs from 'node:fs'
import { describe, expect } from 'vitest'
import { ConsoleNode, signIn, test, useBrowser } from '../support/console/browser.ts'

useBrowser()

describe('signing in', () => {
  test('takes a key of the store, and shows the sentence of the server for any other', async () => {
    const node = await ConsoleNode.start()
    const page = await node.tab()
    await page.getByLabel('API key').fill('cell_sk_wrong')
    await page.getByRole('button', { name: 'Sign in' }).click()
    await page.getByRole('alert').getByText('A valid API key is needed').waitFor()
    await page
      .getByRole('alert')
      .getByText(/request \S+/)
      .waitFor()
    await signIn(page, node.key)
    await page.getByText('There are no cells yet.').waitFor()
  })

  test('keeps the key in memory, and in the tab if asked', async () => {
    const node = await ConsoleNode.start()
    const page = await node.signedIn()
    expect(
      await page.evaluate(() =>
        JSON.stringify([{ ...localStorage }, { ...sessionStorage }, document.cookie]),
      ),
    ).not.toContain(node.key)
    await page.reload()
    await page.getByLabel('Keep it for this tab').check()
    await signIn(page, node.key)
    await page.reload()
    await page.getByRole('heading', { name: 'Cells' }).waitFor()
    await page.getByRole('button', { name: 'Sign out' }).click()
    await page.getByLabel('API key').waitFor()
    await page.reload()
    await page.getByLabel('API key').waitFor()
  })

  test('ends with a sentence when the key is revoked', async () => {
    const node = await ConsoleNode.start()
    const made = await node.ask('POST', '/api-keys', { name: 'short' })
    const page = await node.signedIn('', { key: String(made['key']) })
    await page.getByText('There are no cells yet.').waitFor()
    await node.ask('DELETE', `/api-keys/${made['id']}`)
    await page.getByRole('button', { name: 'New cell' }).click()
    await page.getByRole('button', { name: 'Create' }).click()
    await page.getByRole('alert').getByText('The session has ended: the server refuses the key.').waitFor()
    await page.getByLabel('API key').waitFor()
  })

  test('shows nothing that the key may not do', async () => {
    const node = await ConsoleNode.start()
    const id = await node.cell('acme')
    const keyOf = async (scope: object) => String((await node.ask('POST', '/api-keys', scope))['key'])
    const reading = await node.signedIn('', { key: await keyOf({ access: 'read' }) })
    await reading.getByRole('link', { name: 'acme' }).waitFor()
    for (const name of ['New cell', 'Import…', 'Delete acme', 'Rename acme'])
      expect(await reading.getByRole('button', { name }).count()).toBe(0)
    const kv = await node.signedIn('', { key: await keyOf({ surface: 'kv' }) })
    expect(await kv.getByRole('link', { name: 'Keys' }).count()).toBe(0)
    await kv.getByLabel('Id of the cell').fill(id)
    await kv.getByRole('button', { name: 'Open' }).click()
    const parts = kv.getByRole('navigation', { name: 'Parts of the cell' }).getByRole('link')
    expect(await parts.allTextContents()).toEqual(['KV'])
  })
})

describe('cells', () => {
  test('are made, found, renamed and deleted', async () => {
    const node = await ConsoleNode.start()
    await node.cell('other')
    const page = await node.signedIn()
    await page.getByRole('button', { name: 'New cell' }).click()
    await page.getByLabel('Name', { exact: true }).fill('acme')
    await page.keyboard.press('Enter')
    await page.getByRole('heading', { name: 'acme' }).waitFor()
    await page.getByRole('link', { name: 'Cells', exact: true }).first().click()

    await page.getByLabel('Search by name or id').fill('ACM')
    await page.getByRole('link', { name: 'acme' }).waitFor()
    expect(await page.getByRole('link', { name: 'other' }).count()).toBe(0)
    await page.getByLabel('Search by name or id').fill('')

    await page.getByRole('button', { name: 'Rename acme' }).click()
    await page.getByLabel('Name', { exact: true }).fill('other')
    await page.getByRole('dialog').getByRole('button', { name: 'Rename' }).click()
    await page.getByRole('alert').getByText('name_taken').waitFor()
    await page.getByLabel('Name', { exact: true }).fill('acme-2')
    await page.keyboard.press('Enter')

    await page.getByRole('button', { name: 'Delete acme-2' }).click()
    const remove = page.getByRole('dialog').getByRole('button', { name: 'Delete' })
    expect(await remove.isDisabled()).toBe(true)
    await page.getByLabel('Type its name').fill('acme-2')
    await remove.click()
    await page.getByRole('dialog').waitFor({ state: 'detached' })
    await expect.poll(() => page.getByRole('link', { name: 'acme-2' }).count()).toBe(0)
    await page.getByRole('button', { name: 'Deleted' }).click()
    await page.getByRole('link', { name: 'Bring back acme-2' }).waitFor()
  })

  test('are exported, and imported by a drop of the file', async () => {
    const node = await ConsoleNode.start()
    const id = await node.cell('acme')
    await node.sql(id, 'CREATE TABLE users (name TEXT)')
    await node.sql(id, "INSERT INTO users VALUES ('Ann')")
    const page = await node.signedIn()
    const downloaded = page.waitForEvent('download')
    await page.getByRole('button', { name: 'Export acme' }).click()
    const file = await (await downloaded).path()
    expect((await downloaded).suggestedFilename()).toBe('acme.db')
    await page.getByRole('dialog').getByRole('button', { name: 'Close' }).click()

    const bytes = fs.readFileSync(file).toString('base64')
    await page.evaluate((base64) => {
      const data = new DataTransfer()
      data.items.add(new File([Uint8Array.from(atob(base64), (char) => char.charCodeAt(0))], 'copy.db'))
      document
        .querySelector('main.drop')
        ?.dispatchEvent(new DragEvent('drop', { dataTransfer: data, bubbles: true, cancelable: true }))
    }, bytes)
    await page.getByRole('dialog').getByRole('button', { name: 'Import' }).click()
    await page.getByRole('heading', { name: 'copy', exact: true, level: 1 }).waitFor()
    const copy = page.url().split('/').at(-2) ?? ''
    expect(await node.sql(copy, 'SELECT name FROM users')).toMatchObject({ rows: [{ name: 'Ann' }] })
  })

  test('a file that is no database is refused with the sentence of the server', async () => {
    const node = await ConsoleNode.start()
    const page = await node.signedIn()
    const text = {
      name: 'notes.db',
      mimeType: 'application/octet-stream',
      buffer: Buffer.from('not a database'),
    }
    await page.getByLabel('SQLite file to import').setInputFiles(text)
    await page.getByRole('dialog').getByRole('button', { name: 'Import' }).click()
    await page.getByRole('alert').getByText('invalid_database').waitFor()
  })
})
