import axe from 'axe-core'
import type { Page } from 'playwright-core'
import { describe, expect } from 'vitest'
import { CellStore } from '../../src/store/cell-store.ts'
import { ConsoleNode, signIn, test, useBrowser } from '../support/console/browser.ts'
import { until } from '../support/until.ts'

useBrowser()

const goTo = (page: Page, route: string) => page.evaluate((hash) => location.assign(hash), route)

/** A store in which every page has something to show, and the key of its owner. */
async function furnished(): Promise<{ node: ConsoleNode; id: string; key: string }> {
  const node = await ConsoleNode.start()
  const { key } = await node.place.json<{ key: string }>('keys', 'create', '--owner')
  const id = await node.cell('acme')
  await node.sql(id, 'CREATE TABLE users (id INTEGER PRIMARY KEY, name TEXT)')
  await node.sql(id, "INSERT INTO users (name) VALUES ('Ann'), (NULL)")
  await node.ask('PUT', `/databases/${id}/kv/user%3A1`, { value: '{"n":1}', ttl_seconds: 3_600 })
  await node.ask('PUT', `/databases/${id}/kv/plan`, { value: 'free' })
  await node.ask('POST', `/databases/${id}/backup`)
  return { node, id, key }
}

/** Each page, and what is done there before one looks. */
function pagesOf(id: string): Record<string, { route: string; act: (page: Page) => Promise<void> }> {
  return {
    cells: { route: '#/cells', act: (page) => page.getByRole('link', { name: 'acme' }).waitFor() },
    'new cell': {
      route: '#/cells',
      act: (page) => page.getByRole('button', { name: 'New cell' }).click(),
    },
    sql: {
      route: `#/cells/${id}/sql`,
      act: async (page) => {
        await page.locator('.cm-content').waitFor()
        await page.getByRole('textbox', { name: 'SQL' }).fill('SELECT * FROM users; SELECT nothing')
        await page.getByRole('button', { name: 'Run' }).click()
        await page.getByRole('alert').waitFor()
      },
    },
    kv: {
      route: `#/cells/${id}/kv`,
      act: async (page) => {
        await page.getByRole('button', { name: 'user:' }).click()
        await page
          .getByRole('navigation', { name: 'Keys' })
          .getByRole('button', { name: '1', exact: true })
          .click()
        await page.getByText('expires in').waitFor()
      },
    },
    time: {
      route: `#/cells/${id}/time`,
      act: async (page) => {
        await page.getByRole('button', { name: 'See what a restore would do' }).click()
        await page.getByRole('region', { name: 'What a restore would do' }).waitFor()
      },
    },
    keys: { route: '#/keys', act: (page) => page.getByText('signed in').waitFor() },
    accounts: { route: '#/accounts', act: (page) => page.getByText('active').first().waitFor() },
    node: { route: '#/node', act: (page) => page.locator('canvas').last().waitFor() },
  }
}

test.each(['light', 'dark'] as const)(
  'axe finds no violation on any page, in the theme %s',
  async (colorScheme) => {
    const { node, id, key } = await furnished()
    const page = await node.tab({ colorScheme })
    // By evaluation: the policy of the page lets nobody add a script.
    await page.evaluate(axe.source)
    const check = async (name: string) => {
      const found = await page.evaluate(async () => {
        const { violations } = await (globalThis as unknown as { axe: typeof axe }).axe.run(document)
        return violations.map(
          (each) => `${each.id}: ${each.nodes.map((at) => `${at.html} ${at.failureSummary}`).join(' ')}`,
        )
      })
      expect({ [name]: found }).toEqual({ [name]: [] })
    }
    await check('sign in')
    await signIn(page, key)
    for (const [name, { route, act }] of Object.entries(pagesOf(id))) {
      await goTo(page, route)
      await act(page)
      await check(name)
      await page.keyboard.press('Escape')
    }
  },
)

test('at 390 px no page is wider than the screen', async () => {
  const { node, id, key } = await furnished()
  const page = await node.signedIn('', { key, viewport: { width: 390, height: 800 } })
  for (const [name, { route, act }] of Object.entries(pagesOf(id))) {
    await goTo(page, route)
    await act(page)
    const surplus = await page.evaluate(() => {
      const { scrollWidth, clientWidth } = document.documentElement
      return scrollWidth - clientWidth
    })
    expect({ [name]: surplus <= 0 }).toEqual({ [name]: true })
    await page.keyboard.press('Escape')
  }
})

describe('what others have written is text, and nothing else', () => {
  const EVIL = '<img src=x onerror=alert(1)><script>alert(2)</script>"\'`$' + '{alert(3)}'

  test('in names of cells and keys, in entries, columns, values, plans and errors', async () => {
    const node = await ConsoleNode.start()
    const id = await node.cell(EVIL)
    await node.ask('POST', '/api-keys', { name: EVIL })
    const name = `"${EVIL.replaceAll('"', '""')}"`
    await node.sql(id, `CREATE TABLE ${name} (${name} TEXT)`)
    await node.sql(id, `INSERT INTO ${name} VALUES (?)`, [EVIL])
    await node.ask('POST', `/databases/${id}/kv/ops/mset`, {
      entries: [{ key: `${EVIL}:${EVIL}`, value: EVIL }],
    })
    const page = await node.signedIn()
    await page.getByRole('link', { name: EVIL }).waitFor()
    await page.getByRole('button', { name: `Delete ${EVIL}` }).click()
    await page.getByRole('heading', { name: `Delete ${EVIL}` }).waitFor()
    await page.keyboard.press('Escape')

    await goTo(page, `#/cells/${id}/sql`)
    await page.getByRole('complementary', { name: 'Schema' }).getByText(EVIL, { exact: true }).first().click()
    await page.locator('.cm-content').waitFor()
    await page.getByRole('button', { name: `Show rows of ${EVIL}` }).click()
    await page.getByRole('columnheader', { name: EVIL }).waitFor()
    await page.getByRole('cell', { name: EVIL }).waitFor()
    await page.getByRole('button', { name: 'Explain' }).click()
    await page.getByRole('listitem').getByText(`SCAN ${EVIL}`).waitFor()
    await page
      .getByRole('textbox', { name: 'SQL' })
      .fill(`SELECT ${name} FROM "no${EVIL.replaceAll('"', '""')}"`)
    await page.getByRole('button', { name: 'Run' }).click()
    await page.getByRole('alert').getByText(`no${EVIL}`).waitFor()

    await goTo(page, `#/cells/${id}/kv`)
    const keys = page.getByRole('navigation', { name: 'Keys' })
    await keys.getByRole('button', { name: `${EVIL}:` }).click()
    await keys.getByRole('button', { name: EVIL, exact: true }).click()
    await expect.poll(() => page.getByLabel('Value').inputValue()).toBe(EVIL)
    await goTo(page, '#/keys')
    await page.getByRole('cell', { name: EVIL }).first().waitFor()
    await goTo(page, `#/cells/${encodeURIComponent(EVIL)}/sql`)
    await page.getByText('There is no such cell.').first().waitFor()
    expect(await page.locator('img, script:not([src])').count()).toBe(0)
  })
})

test('a server that goes away is said, and the page goes on when it is back', async () => {
  const place = await ConsoleNode.start()
  const id = await place.cell('acme')
  const { port } = new URL(place.address)
  const page = await place.signedIn(`#/cells/${id}/kv`)
  await page.getByText('live', { exact: true }).waitFor()
  await place.node.stop()
  await page.getByRole('link', { name: 'Cells', exact: true }).first().click()
  await page.getByText('The server does not answer. The page goes on when it is back.').waitFor()
  place.node = await place.place.serve('--port', port, '--workers', '1')
  await page.getByText('The server does not answer. The page goes on').waitFor({ state: 'detached' })
  await page.getByRole('link', { name: 'acme' }).click()
  await page.getByRole('link', { name: 'KV' }).click()
  await page.getByText('live', { exact: true }).waitFor()
})

test('10,000 cells are listed, searched and sorted', async () => {
  const place = await ConsoleNode.start()
  const { key } = place
  await place.node.stop()
  const store = await CellStore.open(place.place.dataDir, { objectStore: `file://${place.place.objects}` })
  const accountId = store.accounts.list()[0]?.id as string
  for (let n = 0; n < 10_000; n++) store.createCell({ accountId, name: `cell ${n}` })
  await store.close()
  place.node = await place.place.serve('--workers', '1')
  const page = await place.tab()
  await signIn(page, key)
  await page.getByText('1–500 of 10,000').waitFor()
  await page.getByRole('button', { name: 'Name', exact: true }).click()
  await page.getByRole('link', { name: 'cell 0', exact: true }).waitFor()
  await page.getByRole('button', { name: 'Name', exact: true }).click()
  await page.getByRole('link', { name: 'cell 9999' }).waitFor()
  await page.getByLabel('Search by name or id').fill('cell 77')
  await page.getByText('111 of 10,000').waitFor()
  await until(async () => (await page.locator('tbody tr').count()) === 111, 'the found rows are shown')
})

test('all of it can be done with the keyboard alone', async () => {
  const node = await ConsoleNode.start()
  const page = await node.tab()
  const focused = () => page.evaluate(() => document.activeElement?.textContent ?? '')
  /** Goes on with Tab until it is there. */
  const tabTo = async (text: string) => {
    await until(async () => {
      await page.keyboard.press('Tab')
      return (await focused()).startsWith(text)
    }, `the focus is on ${text}`)
  }
  await page.keyboard.press('Tab')
  await page.keyboard.type(node.key)
  await page.keyboard.press('Enter')
  await page.getByText('There are no cells yet.').waitFor()
  await tabTo('New cell')
  await page.keyboard.press('Enter')
  await page.keyboard.type('acme')
  await page.keyboard.press('Enter')
  await page.locator('.cm-content').waitFor()
  await until(async () => {
    await page.keyboard.press('Tab')
    return await page.evaluate(
      () => document.activeElement?.shadowRoot?.activeElement?.getAttribute('aria-label') === 'SQL',
    )
  }, 'the focus is in the editor')
  await page.keyboard.type('SELECT 42')
  await page.keyboard.press('Escape')
  await page.keyboard.press('Control+Enter')
  await page.getByRole('cell', { name: '42' }).waitFor()
  // Tab leaves the editor.
  await tabTo('Run')
  await tabTo('History')
  await page.keyboard.press('Enter')
  await page.getByRole('heading', { name: 'History of this cell' }).waitFor()
  await page.keyboard.press('Escape')
  await page.getByRole('dialog').waitFor({ state: 'detached' })
  expect(await focused()).toBe('History')
})
