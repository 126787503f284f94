/// <reference lib="dom" />

import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import fs from 'node:fs'
import os from 'node:os'
import path from 'node:path'
import { chromium, type Page } from 'playwright-core'
import { createClient } from '../src/client/index.ts'

/**
 * Makes the pictures in docs/console/ anew: each page of the console in both themes, and as a phone of 390 px shows it. It starts a node
 * of its own with an owner's key and some cells, and needs Chromium.
 */

const PROJECT = path.join(import.meta.dirname, '..')
const FOLDER = path.join(PROJECT, 'docs', 'console')
const COMMAND = path.join(PROJECT, 'dist', 'cellstore.js')
const BYTES_MAX = 100_000
const NAMES = [
  'acme',
  'globex',
  'initech',
  'umbrella',
  'hooli',
  'stark',
  'wayne',
  'soylent',
  'tyrell',
  'wonka',
]
const FORMS = {
  light: { colorScheme: 'light', viewport: { width: 1280, height: 800 } },
  dark: { colorScheme: 'dark', viewport: { width: 1280, height: 800 } },
  phone: { colorScheme: 'light', viewport: { width: 390, height: 844 } },
} as const

const folder = fs.mkdtempSync(path.join(os.tmpdir(), 'cellstore-screenshots-'))
const node = spawn(process.execPath, [COMMAND, 'serve', '--port', '0', '--workers', '1', '--max-lag', '1s'], {
  cwd: folder,
  stdio: ['ignore', 'pipe', 'inherit'],
})
const browser = await chromium.launch({
  executablePath: process.env['CHROMIUM'] ?? '/usr/bin/chromium',
  args: ['--no-sandbox'],
})
try {
  const banner = await bannerOf(node)
  const address = /http:\/\/\S+/.exec(banner)?.[0] as string
  const firstKey = /cell_sk_\w+/.exec(banner)?.[0] as string
  const key = await ownersKey()
  const id = await furnish(address, key)
  for (const [form, options] of Object.entries(FORMS)) {
    const page = await (await browser.newContext(options)).newPage()
    await page.goto(`${address}/console`)
    await page.getByLabel('API key').waitFor()
    await keep(page, `sign-in-${form}`)
    await page.getByLabel('API key').fill(key)
    await page.getByRole('button', { name: 'Sign in' }).click()
    await page.getByRole('navigation', { name: 'Places' }).waitFor()
    for (const [name, { route, act }] of Object.entries(pagesOf(id))) {
      await page.evaluate((hash) => location.assign(hash), route)
      await act(page)
      await keep(page, `${name}-${form}`)
    }
    await page.context().close()
  }
  if (firstKey === key) throw new Error('The pictures show the first key.')
} finally {
  await browser.close()
  node.kill()
  await once(node, 'exit')
  fs.rmSync(folder, { recursive: true, force: true })
}

/** What is shown before the picture is taken. */
function pagesOf(id: string): Record<string, { route: string; act: (page: Page) => Promise<void> }> {
  return {
    cells: { route: '#/cells', act: (page) => page.getByRole('link', { name: 'wonka' }).waitFor() },
    sql: {
      route: `#/cells/${id}/sql`,
      act: async (page) => {
        await page
          .getByRole('textbox', { name: 'SQL' })
          .fill('SELECT id, name, plan, balance FROM users ORDER BY id;')
        await page.getByRole('button', { name: 'Run' }).click()
        await page.getByRole('cell', { name: 'Ann', exact: true }).waitFor()
      },
    },
    kv: {
      route: `#/cells/${id}/kv`,
      act: async (page) => {
        await page.getByRole('button', { name: 'session:' }).click()
        await page.getByRole('navigation', { name: 'Keys' }).getByRole('button', { name: 'ann' }).click()
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
    node: {
      route: '#/node',
      act: async (page) => {
        await page.getByRole('region', { name: 'Busiest cells' }).getByText('acme').waitFor()
        // Three looks: the line of commits a second has points.
        for (let n = 0; n < 3; n++) await page.waitForResponse(/\/v1\/status$/)
      },
    },
  }
}

async function bannerOf({ stdout }: ChildProcess): Promise<string> {
  let text = ''
  for await (const chunk of stdout as NodeJS.ReadableStream) {
    text += String(chunk)
    if (/cell_sk_\w+\n/.test(text)) return text
  }
  throw new Error(`The node ended: ${text}`)
}

async function ownersKey(): Promise<string> {
  const command = spawn(
    process.execPath,
    [COMMAND, 'keys', 'create', '--owner', '--name', 'operator', '--json'],
    {
      cwd: folder,
      stdio: ['ignore', 'pipe', 'inherit'],
    },
  )
  let text = ''
  for await (const chunk of command.stdout) text += String(chunk)
  return (JSON.parse(text) as { key: string }).key
}

/** @returns the cell that the pages of one cell show */
async function furnish(baseUrl: string, apiKey: string): Promise<string> {
  const cells = createClient({ baseUrl, apiKey })
  const ids: string[] = []
  for (const name of NAMES) ids.push((await cells.createCell({ name })).id)
  const [id = ''] = ids
  await cells.batch({
    id,
    operations: [
      { sql: 'CREATE TABLE users (id INTEGER PRIMARY KEY, name TEXT NOT NULL, plan TEXT, balance INTEGER)' },
      { sql: 'CREATE INDEX users_of_a_plan ON users (plan)' },
      {
        sql: "INSERT INTO users (name, plan, balance) VALUES ('Ann', 'pro', 1200), ('Bo', 'free', 0), ('Cy', 'pro', 90071992547409931), ('Di', NULL, -5)",
      },
      { kv: 'put', key: 'session:ann', value: '{"user":1,"theme":"dark"}', ttl_seconds: 86_400 },
      { kv: 'put', key: 'session:bo', value: '{"user":2}', ttl_seconds: 3_600 },
      { kv: 'put', key: 'settings:mail', value: 'on' },
      { kv: 'put', key: 'plan', value: 'pro' },
    ],
  })
  await cells.backup({ id })
  await cells.sql({ id, sql: "UPDATE users SET plan = 'team' WHERE name = 'Bo'" })
  await cells.backupIncremental({ id })
  for (const each of ids.slice(1))
    await cells.sql({ id: each, sql: 'CREATE TABLE notes (id INTEGER PRIMARY KEY, text TEXT)' })
  await cells.createAccount({ name: 'Globex' })
  return id
}

/** Debian's Chromium takes no WebP itself; its canvas makes one. */
async function keep(page: Page, name: string): Promise<void> {
  const png = await page.screenshot({ animations: 'disabled' })
  const other = await browser.newPage()
  const webp = await other.evaluate(async (base64) => {
    const image = new Image()
    image.src = `data:image/png;base64,${base64}`
    await image.decode()
    const canvas = document.createElement('canvas')
    canvas.width = image.width
    canvas.height = image.height
    canvas.getContext('2d')?.drawImage(image, 0, 0)
    return canvas.toDataURL('image/webp', 0.85)
  }, png.toString('base64'))
  await other.close()
  const bytes = Buffer.from(webp.slice(webp.indexOf(',') + 1), 'base64')
  if (bytes.length > BYTES_MAX) throw new Error(`${name} takes ${bytes.length} bytes.`)
  fs.writeFileSync(path.join(FOLDER, `${name}.webp`), bytes)
}
