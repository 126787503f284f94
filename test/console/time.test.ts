import type { Page } from 'playwright-core'
import { describe, expect } from 'vitest'
import { ConsoleNode, test, useBrowser } from '../support/console/browser.ts'

useBrowser()

/** The status of a restore that waits for its turn. */
const RUNNING = {
  id: '',
  state: 'running',
  bytes_done: 0,
  bytes_total: null,
  eta_ms: null,
  started_at: new Date(0).toISOString(),
  ended_at: null,
  result: null,
  problem: null,
}
const SHIPS_OFTEN = ['--max-lag', '1s']

/** A cell with a table, of which a version is stored, and that has changed since. */
async function open(): Promise<{ node: ConsoleNode; id: string; page: Page; at: number }> {
  const node = await ConsoleNode.start(...SHIPS_OFTEN)
  const id = await node.cell('acme')
  await node.sql(id, 'CREATE TABLE users (name TEXT)')
  await node.sql(id, "INSERT INTO users VALUES ('Ann')")
  const stored = await node.ask('POST', `/databases/${id}/backup`)
  const at = Date.parse(String(stored['created_at']))
  // The line has seconds: the mistake is in a later one.
  const later = () => Date.now() > at + 2_500
  await expect.poll(later).toBe(true)
  await node.sql(id, 'DROP TABLE users')
  return { node, id, at, page: await node.signedIn(`#/cells/${id}/time`) }
}

/** As the field for the moment has it, in the time zone of the browser. */
function inField(page: Page, at: number): Promise<string> {
  return page.evaluate((ms) => {
    const zoned = new Date(ms - new Date(ms).getTimezoneOffset() * 60_000)
    return zoned.toISOString().slice(0, 19)
  }, at)
}

async function check(page: Page, at: number): Promise<void> {
  await page
    .getByRole('textbox', { name: 'Moment' })
    .or(page.locator('input[type=datetime-local]'))
    .fill(await inField(page, at))
  await page.getByRole('button', { name: 'See what a restore would do' }).click()
  await page.getByRole('region', { name: 'What a restore would do' }).waitFor()
}

describe('the time of a cell', () => {
  test('is a line from which a moment is restored in place, after a look, and undone', async () => {
    const { page, node, id, at } = await open()
    await check(page, at + 1_999)
    const plan = page.getByRole('region', { name: 'What a restore would do' })
    await plan.getByText(/\d objects?, \d/).waitFor()
    await plan.getByRole('button', { name: 'Restore in place' }).click()
    await page.getByText('can be brought back').waitFor()
    expect(await node.sql(id, 'SELECT name FROM users')).toMatchObject({ rows: [{ name: 'Ann' }] })
    await page.getByRole('button', { name: 'Undo the restore' }).click()
    await page.getByText('can be brought back').waitFor({ state: 'detached' })
    const tables = "SELECT count(*) AS n FROM sqlite_schema WHERE name = 'users'"
    expect(await node.sql(id, tables)).toMatchObject({ rows: [{ n: 0 }] })
  })

  test('is branched into a new cell', async () => {
    const { page, node, at } = await open()
    await check(page, at + 1_999)
    await page.getByRole('button', { name: 'Make a new cell of it' }).click()
    await page.getByLabel('Name').fill('acme-before')
    await page.getByRole('button', { name: 'Make the cell' }).click()
    await page.getByRole('heading', { name: 'acme-before' }).waitFor()
    const copy = page.url().split('/').at(-2) ?? ''
    expect(await node.sql(copy, 'SELECT name FROM users')).toMatchObject({ rows: [{ name: 'Ann' }] })
  })

  test('takes the keyboard: arrows move the moment by a second', async () => {
    const { page } = await open()
    const line = page.getByRole('slider', { name: 'Moment' })
    await line.focus()
    const before = Number(await line.inputValue())
    await page.keyboard.press('ArrowLeft')
    expect(Number(await line.inputValue())).toBe(before - 1)
  })

  test('has a list of versions, and says where the server finds nothing', async () => {
    const { page, at } = await open()
    const versions = page.getByRole('region', { name: 'Versions', exact: true })
    await versions.getByRole('cell', { name: 'snapshot' }).first().waitFor()
    const count = await versions.locator('tbody tr').count()
    await page.getByRole('button', { name: 'Store a version now' }).click()
    await expect.poll(() => versions.locator('tbody tr').count()).toBeGreaterThan(count)
    await page.locator('input[type=datetime-local]').fill(await inField(page, at - 3_600_000))
    await page.getByText('before all that is stored').waitFor()
    await page.getByRole('button', { name: 'See what a restore would do' }).click()
    await page.getByRole('alert').getByText('backup_not_found').waitFor()
    await versions
      .getByRole('button', { name: /^Choose backup-/ })
      .last()
      .click()
    await page.getByRole('button', { name: 'See what a restore would do' }).click()
    await page.getByRole('region', { name: 'What a restore would do' }).waitFor()
  })

  test('says what each version stays for; an owner pins one', async () => {
    const { node, id } = await open()
    const owner = await node.place.json<{ key: string }>('keys', 'create', '--owner')
    const page = await node.signedIn(`#/cells/${id}/time`, { key: owner.key })
    const versions = page.getByRole('region', { name: 'Versions', exact: true })
    await versions.getByText(/^Versions stay by their age: all:1d/).waitFor()
    await versions
      .getByRole('button', { name: /^Pin backup-/ })
      .first()
      .click()
    await versions.getByRole('cell', { name: 'pinned' }).waitFor()
    const { versions: kept } = (await node.ask('GET', `/databases/${id}/retention`)) as {
      versions: { reason: string }[]
    }
    expect(kept.map(({ reason }) => reason)).toContain('pinned')
    await versions.getByRole('button', { name: /^Unpin backup-/ }).click()
    await versions.getByRole('cell', { name: 'pinned' }).waitFor({ state: 'detached' })
  })

  test('a restore that waits can be cancelled, and leaves the cell as it is', async () => {
    const { page, node, id } = await open()
    await page.getByRole('button', { name: 'See what a restore would do' }).click()
    await page.getByRole('button', { name: 'Restore in place' }).waitFor()
    // As for a restore that takes long: what the server says of this one comes late.
    let isCanceled = false
    let running = RUNNING
    await page.route(/\/restores\/[0-9a-f-]+$/, async (route) => {
      isCanceled ||= route.request().method() === 'DELETE'
      if (isCanceled) await route.continue()
      else await route.fulfill({ json: running })
    })
    await page.route(/\/restore$/, async (route) => {
      const answer = await route.fetch()
      running = { ...RUNNING, id: ((await answer.json()) as { id: string }).id }
      await route.fulfill({ status: 202, json: running })
    })
    await page.getByRole('button', { name: 'Restore in place' }).click()
    await page.getByRole('status').getByRole('button', { name: 'Cancel' }).click()
    await page.getByRole('progressbar').waitFor({ state: 'detached' })
    expect(isCanceled).toBe(true)
    expect((await node.ask('GET', `/databases/${id}/restores/${running.id}`))['state']).not.toBe('running')
  })

  test('brings a deleted cell back', async () => {
    const node = await ConsoleNode.start()
    const id = await node.cell('acme')
    await node.sql(id, 'CREATE TABLE users (name TEXT)')
    await node.ask('DELETE', `/databases/${id}`)
    const page = await node.signedIn()
    await page.getByRole('button', { name: 'Deleted' }).click()
    await page.getByRole('link', { name: 'Bring back acme' }).click()
    await page.getByText('its backups can bring it back').waitFor()
    await page
      .getByRole('button', { name: /^Choose backup-/ })
      .first()
      .click()
    await page.getByRole('button', { name: 'See what a restore would do' }).click()
    await page.getByRole('button', { name: 'Bring the cell back' }).click()
    await page.getByRole('heading', { name: 'acme' }).waitFor()
    expect(await node.sql(id, 'SELECT * FROM users')).toMatchObject({ row_count: 0 })
  })
})
