import type { Page } from 'playwright-core'
import { describe, expect } from 'vitest'
import { ConsoleNode, test, useBrowser } from '../support/console/browser.ts'

useBrowser()

/** A cell with its SQL page open. */
async function open(...setUp: string[]): Promise<{ node: ConsoleNode; id: string; page: Page }> {
  const node = await ConsoleNode.start()
  const id = await node.cell('acme')
  for (const sql of setUp) await node.sql(id, sql)
  const page = await node.signedIn(`#/cells/${id}/sql`)
  await page.locator('.cm-content').waitFor()
  return { node, id, page }
}

async function run(page: Page, sql: string): Promise<void> {
  await page.getByRole('textbox', { name: 'SQL' }).fill(sql)
  await page.getByRole('button', { name: 'Run' }).click()
}

const result = (page: Page, number = 1) => page.getByRole('region', { name: `Result ${number}` })
const rowsOf = (page: Page, number = 1) =>
  page.getByRole('region', { name: `Rows of result ${number}` }).locator('tbody tr')

const USERS = 'CREATE TABLE users (id INTEGER PRIMARY KEY, name TEXT NOT NULL)'

describe('statements', () => {
  test('run one after the other, each with its result, its time and what it changed', async () => {
    const { page } = await open()
    await run(page, `${USERS};\nINSERT INTO users (name) VALUES ('Ann'), ('Bob; Bill');\nSELECT * FROM users`)
    await result(page, 2)
      .getByText(/2 rows changed · \d/)
      .waitFor()
    await result(page, 3)
      .getByText(/2 rows · \d.* ms/)
      .waitFor()
    expect(await rowsOf(page, 3).allInnerTexts()).toEqual(['1\tAnn', '2\tBob; Bill'])
  })

  test('take parameters with all digits, by place and by name', async () => {
    const { page } = await open()
    await page.getByText('Parameters', { exact: true }).click()
    await page
      .getByLabel('Parameters, as JSON')
      .fill('[9007199254740993, {"type": "blob", "base64": "AP8="}]')
    await run(page, 'SELECT ? AS n, ? AS b, typeof(?1) AS type')
    await result(page).getByText('9007199254740993').waitFor()
    await result(page).getByText("x'00ff'").waitFor()
    await result(page).getByText('integer', { exact: true }).waitFor()
    await page.getByLabel('Parameters, as JSON').fill('{"a": 1}')
    await run(page, 'SELECT :a; SELECT :a + 1')
    await result(page, 2).getByRole('cell', { name: '2' }).waitFor()
    await page.getByLabel('Parameters, as JSON').fill('[1')
    await run(page, 'SELECT ?')
    await page.getByRole('alert').waitFor()
  })

  test('show integers of 64 bits, blobs, NULL and long text as what they are', async () => {
    const { page } = await open()
    await run(
      page,
      "SELECT 9223372036854775807 AS n, x'68690a' AS b, NULL AS none, hex(zeroblob(400)) AS long",
    )
    await result(page).getByRole('cell', { name: '9223372036854775807' }).waitFor()
    await result(page).getByRole('cell', { name: 'NULL' }).waitFor()
    await result(page).getByRole('button', { name: 'All of long' }).click()
    expect(await page.getByRole('dialog').getByLabel('long').inputValue()).toBe('00'.repeat(400))
    await page.keyboard.press('Escape')
    await result(page).getByRole('button', { name: 'All of b' }).click()
    expect(await page.getByRole('dialog').getByLabel('b').inputValue()).toBe("x'68690a'")
  })

  test('that fail end the script, with the sentence of the server at their place', async () => {
    const { page } = await open(USERS)
    await run(page, "INSERT INTO users (name) VALUES ('Ann');\nSELECT *\nFRM users;\nSELECT 1")
    const alert = page.getByRole('alert')
    await alert.getByText('Line 3').waitFor()
    await alert.getByText('sql_error').waitFor()
    expect(await page.locator('.cm-fault').innerText()).toBe('FRM')
    expect(await result(page, 2).count()).toBe(0)
    await run(page, 'SELECT nme FROM users')
    await expect.poll(() => page.locator('.cm-fault').allInnerTexts()).toEqual(['nme'])
  })

  test('run all or none if asked', async () => {
    const { page, node, id } = await open(USERS)
    await page.getByLabel('All or none').check()
    await run(page, "INSERT INTO users (name) VALUES ('Ann'); INSERT INTO users (name) VALUES (NULL)")
    await page.getByRole('alert').getByText('constraint_violation').waitFor()
    expect(await node.sql(id, 'SELECT * FROM users')).toMatchObject({ row_count: 0 })
  })

  test('a selected part runs alone', async () => {
    const { page } = await open()
    await page.getByRole('textbox', { name: 'SQL' }).fill('SELECT 1;\nSELECT 2')
    await page.keyboard.press('Control+End')
    await page.keyboard.press('Shift+Home')
    await page.keyboard.press('Control+Enter')
    await result(page).getByRole('cell', { name: '2' }).waitFor()
    expect(await result(page, 2).count()).toBe(0)
  })

  test('can be cancelled', async () => {
    const { page, node, id } = await open()
    const asked = page.waitForRequest(
      (request) => request.url().endsWith('/sql') && request.postData()?.includes('RECURSIVE') === true,
    )
    await run(page, 'WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT count(*) FROM n')
    await asked
    await page.getByRole('button', { name: 'Cancel' }).click()
    await page.getByText('Running…').waitFor({ state: 'detached' })
    expect(await page.getByRole('alert').count()).toBe(0)
    // It runs up to its time limit, and this one after it: a node that is killed before would leave a worker that is busy.
    expect(await node.sql(id, 'SELECT 1')).toMatchObject({ row_count: 1 })
  })
})

describe('results', () => {
  test('of 10,000 rows are pages of 500, and are copied whole as CSV and JSON', async () => {
    const { page } = await open()
    await page.context().grantPermissions(['clipboard-read', 'clipboard-write'])
    await run(
      page,
      `WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n LIMIT 10000) SELECT i, 'a "b", ' || i AS text FROM n`,
    )
    await result(page).getByText('10,000 rows').waitFor()
    expect(await rowsOf(page).count()).toBe(500)
    await page.getByRole('button', { name: 'Next' }).click()
    await page.getByText('501–1,000 of 10,000').waitFor()
    const copied = async (name: string) => {
      await page.getByRole('button', { name }).click()
      await page.getByText('Copied').waitFor()
      const text = await page.evaluate(() => navigator.clipboard.readText())
      await page.getByText('Copied').waitFor({ state: 'detached' })
      return text
    }
    const csv = (await copied('Copy CSV')).split('\r\n')
    expect(csv.slice(0, 2)).toEqual(['i,text', '1,"a ""b"", 1"'])
    expect(csv).toHaveLength(10_002)
    expect(JSON.parse(await copied('Copy JSON'))).toHaveLength(10_000)
  })

  test('hold a row of 1 MiB', async () => {
    const { page } = await open()
    await run(page, 'SELECT hex(zeroblob(524288)) AS big')
    await result(page).getByRole('button', { name: 'All of big' }).click()
    await page.getByRole('heading', { name: 'big: 1,048,576 characters' }).waitFor()
    expect((await page.getByRole('dialog').getByLabel('big').inputValue()).length).toBe(1_048_576)
  })

  test('of EXPLAIN QUERY PLAN are a tree', async () => {
    const { page } = await open(USERS)
    await page
      .getByRole('textbox', { name: 'SQL' })
      .fill('SELECT * FROM users WHERE id IN (SELECT id FROM users WHERE name = 1)')
    await page.getByRole('button', { name: 'Explain' }).click()
    await result(page)
      .getByRole('listitem')
      .filter({ hasText: 'SUBQUERY' })
      .getByRole('listitem')
      .getByText('SCAN users')
      .waitFor()
  })
})

test('the schema shows tables, columns, indexes and sizes, and follows what runs', async () => {
  const { page } = await open(USERS)
  const schema = page.getByRole('complementary', { name: 'Schema' })
  await schema.getByText('users', { exact: true }).click()
  await schema.getByText('not null').waitFor()
  await run(page, 'CREATE INDEX by_name ON users (name); CREATE VIEW short AS SELECT name FROM users')
  await schema.getByText('by_name', { exact: true }).waitFor()
  await schema.getByText('view', { exact: true }).waitFor()
  await expect.poll(() => schema.getByText(/\d kB/).count()).toBeGreaterThan(1)
  expect(await schema.innerText()).not.toContain('_cell')
  await run(page, 'DROP TABLE users')
  await expect.poll(() => schema.getByText('users', { exact: true }).count()).toBe(0)
  await schema.getByText('short', { exact: true }).waitFor()
})

test('the editor completes from the schema', async () => {
  const { page } = await open('CREATE TABLE customers (surname TEXT)')
  await page.getByRole('complementary', { name: 'Schema' }).getByText('customers', { exact: true }).waitFor()
  await page.getByRole('textbox', { name: 'SQL' }).pressSequentially('SELECT * FROM cust', { delay: 20 })
  await page.getByRole('option', { name: 'customers' }).waitFor()
})

test('what was run is remembered for each cell', async () => {
  const { page, node } = await open()
  await run(page, 'SELECT 41 + 1')
  await result(page).getByRole('cell', { name: '42' }).waitFor()
  await page.getByRole('button', { name: 'History' }).click()
  await page.getByRole('dialog').getByRole('button', { name: 'SELECT 41 + 1' }).click()
  expect(await page.getByRole('textbox', { name: 'SQL' }).innerText()).toBe('SELECT 41 + 1')
  const other = await node.cell()
  await page.evaluate((id) => location.assign(`#/cells/${id}/sql`), other)
  await page.getByRole('button', { name: 'History' }).click()
  await page.getByText('Nothing was run yet.').waitFor()
})

test('without its editor the page has a text area that does the same', async () => {
  const node = await ConsoleNode.start()
  const id = await node.cell()
  const page = await node.tab()
  await page.route(/code-editor/, (route) => route.abort())
  await page.getByLabel('API key').fill(node.key)
  await page.keyboard.press('Enter')
  await page.getByText('no name').click()
  await page.getByRole('textbox', { name: 'SQL' }).fill('SELECT 42')
  await page.keyboard.press('Control+Enter')
  await result(page).getByRole('cell', { name: '42' }).waitFor()
  expect(page.url()).toContain(id)
})
