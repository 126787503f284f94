import type { Page } from 'playwright-core'
import { describe, expect } from 'vitest'
import { ConsoleNode, signIn, test, useBrowser } from '../support/console/browser.ts'

useBrowser()

/** A cell with these entries, and its KV page open. */
async function open(
  entries: Record<string, string> = {},
): Promise<{ node: ConsoleNode; id: string; page: Page }> {
  const node = await ConsoleNode.start()
  const id = await node.cell('acme')
  const all = Object.entries(entries).map(([key, value]) => ({ key, value }))
  if (all.length > 0) await node.ask('POST', `/databases/${id}/kv/ops/mset`, { entries: all })
  return { node, id, page: await node.signedIn(`#/cells/${id}/kv`) }
}

const keys = (page: Page) => page.getByRole('navigation', { name: 'Keys' })
const put = (node: ConsoleNode, id: string, key: string, value: string) =>
  node.ask('PUT', `/databases/${id}/kv/${encodeURIComponent(key)}`, { value })

test('keys are a tree by colons, and a prefix narrows it', async () => {
  const { page } = await open({
    plan: 'free',
    'user:1:name': 'Ann',
    'user:1:mail': 'a@x',
    'user:2:name': 'Bob',
  })
  await expect.poll(() => keys(page).getByRole('button').allInnerTexts()).toEqual(['plan', 'user:'])
  await keys(page).getByRole('button', { name: 'user:' }).click()
  await keys(page).getByRole('button', { name: '1:' }).click()
  await keys(page).getByRole('button', { name: 'name' }).click()
  await expect.poll(() => page.getByLabel('Value').inputValue()).toBe('Ann')
  await page.getByLabel('Prefix of the keys').fill('user:2')
  await expect.poll(() => keys(page).getByRole('button').allInnerTexts()).toEqual([':'])
  await page.getByLabel('Prefix of the keys').fill('none')
  await page.getByText('No key begins with this.').waitFor()
})

test('entries are made, edited, formatted, given a time and deleted', async () => {
  const { page, node, id } = await open()
  await page.getByRole('button', { name: 'New entry' }).click()
  await page.getByLabel('Key', { exact: true }).fill('..')
  await page.getByLabel('Value').fill('{"n":12345678901234567890,"a":[]}')
  await page.getByRole('dialog').getByRole('button', { name: 'Create' }).click()
  const entry = page.getByRole('region', { name: 'Entry ..' })
  await entry.getByRole('button', { name: 'Format JSON' }).click()
  expect(await entry.getByLabel('Value').inputValue()).toBe('{\n  "n": 12345678901234567890,\n  "a": []\n}')
  await entry.getByRole('button', { name: 'Save' }).click()
  await expect.poll(() => entry.getByRole('button', { name: 'Save' }).isDisabled()).toBe(true)
  const read = async () =>
    (await node.ask('POST', `/databases/${id}/kv/ops/mget`, { keys: ['..'] }))['entries']
  expect(await read()).toMatchObject([{ value: '{\n  "n": 12345678901234567890,\n  "a": []\n}' }])

  await entry.getByRole('button', { name: 'Time to live…' }).click()
  await page.getByLabel('Seconds from now').fill('3600')
  await page.keyboard.press('Enter')
  await entry.getByText('expires in 59 min').waitFor()

  await page.getByRole('button', { name: 'New entry' }).click()
  await page.getByLabel('Key', { exact: true }).fill('..')
  await page.getByRole('dialog').getByRole('button', { name: 'Create' }).click()
  await page.getByText('There is an entry with this key.').waitFor()
  await page.keyboard.press('Escape')

  await entry.getByRole('button', { name: 'Delete' }).click()
  await page.getByText('There are no entries yet.').first().waitFor()
  expect(await read()).toEqual([null])
})

test('a change by somebody else is shown, and not overwritten', async () => {
  const { page, node, id } = await open({ plan: 'free' })
  await keys(page).getByRole('button', { name: 'plan' }).click()
  await page.getByLabel('Value').fill('mine')
  await put(node, id, 'plan', 'theirs')
  await page.getByRole('alert').getByText('Somebody else has changed this entry.').waitFor()
  expect(await page.getByLabel('Their value').inputValue()).toBe('theirs')
  expect(await page.getByRole('button', { name: 'Save', exact: true }).isDisabled()).toBe(true)
  await page.getByRole('button', { name: 'Save mine over it' }).click()
  await page.getByRole('alert').waitFor({ state: 'detached' })
  expect(await node.ask('GET', `/databases/${id}/kv/plan`)).toMatchObject({ value: 'mine' })
})

test('without live changes a save is refused if somebody else was first', async () => {
  const { node, id } = await open({ plan: 'free' })
  const made = await node.ask('POST', '/api-keys', { surface: 'kv' })
  const page = await node.signedIn(`#/cells/${id}/kv`, { key: String(made['key']) })
  await keys(page).getByRole('button', { name: 'plan' }).click()
  await page.getByLabel('Value').fill('mine')
  await put(node, id, 'plan', 'theirs')
  await page.getByRole('button', { name: 'Save' }).click()
  await page.getByRole('alert').getByText('Somebody else has changed this entry.').waitFor()
  await page.getByRole('button', { name: 'Take theirs' }).click()
  expect(await page.getByLabel('Value').inputValue()).toBe('theirs')
  expect(await node.ask('GET', `/databases/${id}/kv/plan`)).toMatchObject({ value: 'theirs' })
})

test('two tabs see what the other one does', async () => {
  const { page, node, id } = await open({ plan: 'free' })
  const other = await page.context().newPage()
  await other.goto(`${node.address}/console#/cells/${id}/kv`)
  await signIn(other, node.key)
  for (const tab of [page, other]) {
    await tab.getByText('live', { exact: true }).waitFor()
    await keys(tab).getByRole('button', { name: 'plan' }).click()
  }
  await other.getByLabel('Value').fill('paid')
  await other.getByRole('button', { name: 'Save' }).click()
  await expect.poll(() => page.getByLabel('Value').inputValue()).toBe('paid')
  await other.getByRole('button', { name: 'New entry' }).click()
  await other.getByLabel('Key', { exact: true }).fill('new')
  await other.getByRole('dialog').getByRole('button', { name: 'Create' }).click()
  await keys(page).getByRole('button', { name: 'new' }).waitFor()
  await page.getByText('2 keys changed since').waitFor()
})

describe('many entries', () => {
  test('are deleted by selection, and by prefix with their name typed', async () => {
    const { page } = await open({ a: '1', b: '2', c: '3', 'user:1': 'x', 'user:2': 'y' })
    await page.getByLabel('Select a').check()
    await page.getByLabel('Select c').check()
    await page.getByRole('button', { name: 'Delete 2 entries' }).click()
    await page.getByRole('dialog').getByRole('button', { name: 'Delete' }).click()
    await expect.poll(() => keys(page).getByRole('button').allInnerTexts()).toEqual(['b', 'user:'])
    await page.getByLabel('Prefix of the keys').fill('user:')
    await page.getByRole('button', { name: 'Delete all…' }).click()
    await page.getByLabel('Type the prefix').fill('user:')
    await page.getByRole('dialog').getByRole('button', { name: 'Delete' }).click()
    await page.getByText('No key begins with this.').waitFor()
    await page.getByLabel('Prefix of the keys').fill('')
    await expect.poll(() => keys(page).getByRole('button').allInnerTexts()).toEqual(['b'])
  })

  test('a million keys: the groups are there at once, and each opens', async () => {
    const { page, node, id } = await open({ zebra: 'last' })
    // As SQL may not write entries, in batches of what a request takes.
    for (let n = 0; n < 100; n++) {
      const entries = Array.from({ length: 10_000 }, (_, at) => ({
        key: `user:${n * 10_000 + at}:name`,
        value: 'x',
      }))
      for (let at = 0; at < entries.length; at += 1_000)
        await node.ask('POST', `/databases/${id}/kv/ops/mset`, { entries: entries.slice(at, at + 1_000) })
    }
    await page.reload()
    await signIn(page, node.key)
    await expect.poll(() => keys(page).getByRole('button').allInnerTexts()).toEqual(['user:', 'zebra'])
    await keys(page).getByRole('button', { name: 'user:' }).click()
    await keys(page).getByRole('button', { name: 'More of user:' }).click()
    await expect.poll(() => keys(page).getByRole('button').count()).toBe(403)
    await page.getByLabel('Prefix of the keys').fill('user:999999')
    await keys(page).getByRole('button', { name: ':' }).click()
    await keys(page).getByRole('button', { name: 'name' }).click()
    await expect.poll(() => page.getByLabel('Value').inputValue()).toBe('x')
  })
})
