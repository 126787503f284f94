import type { Page } from 'playwright-core'
import { expect } from 'vitest'
import { ConsoleNode, test, useBrowser } from '../support/console/browser.ts'

useBrowser()

/** What the whole session may take: more clicks are a worse page. */
const CLICKS_MAX = 11

/** Counts the clicks of a session. */
class Hand {
  readonly page: Page
  clicks = 0

  constructor(page: Page) {
    this.page = page
  }

  async click(role: 'button' | 'link', name: string): Promise<void> {
    this.clicks++
    await this.page.getByRole(role, { name, exact: true }).click()
  }
}

test('a newcomer makes a table, drops it by mistake, and goes back in time, with the page alone', async () => {
  const node = await ConsoleNode.start()
  const page = await node.tab()
  const hand = new Hand(page)
  await page.getByLabel('API key').fill(node.key)
  await hand.click('button', 'Sign in')
  await hand.click('button', 'New cell')
  await page.getByLabel('Name', { exact: true }).fill('acme')
  await hand.click('button', 'Create')
  await hand.click('button', 'Write an example')
  const ran = Date.now()
  await hand.click('button', 'Run')
  await page.getByRole('cell', { name: 'second' }).waitFor()
  const good = Date.now()

  // Some time passes, in which the node stores what there is, unasked. Its first version may be older: the cell as it was created.
  const storedAt = async () => {
    const { restorable } = await node.ask('GET', `/databases/${page.url().split('/').at(-2)}/backups`)
    return Date.parse((restorable as { to: string }[])[0]?.to ?? '')
  }
  await expect.poll(storedAt, { timeout: 60_000 }).toBeGreaterThan(ran)
  await expect.poll(() => Date.now() > good + 2_000).toBe(true)

  await page.getByRole('textbox', { name: 'SQL' }).fill('DROP TABLE notes')
  await hand.click('button', 'Run')
  await page.getByText('There is no table yet.').waitFor()
  await hand.click('link', 'Time')
  await page.getByRole('slider', { name: 'Moment' }).fill(String(Math.floor(good / 1_000) + 1))
  await hand.click('button', 'See what a restore would do')
  await hand.click('button', 'Restore in place')
  await page.getByText('can be brought back').waitFor()
  await hand.click('link', 'SQL')
  await page.getByRole('complementary', { name: 'Schema' }).getByText('notes', { exact: true }).waitFor()
  console.info(`From the start to the table, the mistake and back: ${hand.clicks} clicks`)
  expect(hand.clicks).toBeLessThanOrEqual(CLICKS_MAX)
})
