import fs from 'node:fs'
import { type Browser, type BrowserContextOptions, chromium, type Page } from 'playwright-core'
import { afterAll, beforeAll, expect, onTestFinished, test as plainTest } from 'vitest'
import { type ServedNode, Workplace } from '../cli/workplace.ts'

/** Debian's, or the one that a variable names. */
const PLACES = [process.env['CHROMIUM'] ?? '', '/usr/bin/chromium', '/usr/bin/chromium-headless-shell']
const EXECUTABLE = PLACES.find((place) => place !== '' && fs.existsSync(place))
const WAIT_MS_MAX = 30_000

/** Why no browser can be driven here; undefined where one can. */
const noBrowser: string | undefined =
  EXECUTABLE === undefined
    ? 'there is no Chromium: apt-get install chromium, or name one in CHROMIUM'
    : undefined

if (noBrowser !== undefined) console.info(`The tests of the console are skipped: ${noBrowser}.`)

/** A test in a real browser; skipped where there is none. */
export const test = plainTest.skipIf(noBrowser !== undefined)

let browser: Browser

/** One browser for the tests of a file. */
export function useBrowser(): void {
  if (noBrowser !== undefined) return
  beforeAll(async () => {
    browser = await chromium.launch({ executablePath: EXECUTABLE as string, args: ['--no-sandbox'] })
  })
  afterAll(() => browser.close())
}

/** A node with a console, as its users start it. */
export class ConsoleNode {
  readonly place = new Workplace()
  node!: ServedNode

  static async start(...args: string[]): Promise<ConsoleNode> {
    const started = new ConsoleNode()
    started.node = await started.place.serve('--workers', '1', ...args)
    return started
  }

  get key(): string {
    return this.node.key
  }

  get address(): string {
    return this.node.address
  }

  /** A request with the first key, which has to succeed. */
  async ask(method: string, route: string, body?: unknown, key?: string): Promise<Record<string, unknown>> {
    const answer = await this.node.request(method, `/v1${route}`, body, key)
    expect(answer.status, JSON.stringify(answer.body)).toBeLessThan(300)
    return answer.body
  }

  /** Makes a cell. @returns its id */
  async cell(name?: string): Promise<string> {
    return String((await this.ask('POST', '/databases', name === undefined ? {} : { name }))['id'])
  }

  sql(id: string, sql: string, params: unknown[] = []): Promise<Record<string, unknown>> {
    return this.ask('POST', `/databases/${id}/sql`, { sql, params })
  }

  /** A tab of its own browser, at the console. */
  async tab(options: BrowserContextOptions = {}): Promise<Page> {
    const context = await browser.newContext({ ...options, acceptDownloads: true })
    const page = await context.newPage()
    page.setDefaultTimeout(WAIT_MS_MAX)
    const faults = watch(page)
    await page.goto(`${this.address}/console`)
    onTestFinished(async () => {
      await context.close()
      expect(faults).toEqual([])
    })
    return page
  }

  /** A tab in which somebody has signed in, at a place of the console such as `#/cells`. */
  async signedIn(
    route = '',
    { key = this.key, ...options }: BrowserContextOptions & { key?: string } = {},
  ): Promise<Page> {
    const page = await this.tab(options)
    await signIn(page, key)
    if (route !== '') await page.evaluate((hash) => location.assign(hash), route)
    return page
  }
}

export async function signIn(page: Page, key: string): Promise<void> {
  await page.getByLabel('API key').fill(key)
  await page.getByRole('button', { name: 'Sign in' }).click()
  await page.getByRole('navigation', { name: 'Places' }).waitFor()
}

/** What no page of ours may do: break its own policy, throw, or open a dialog of the browser. */
function watch(page: Page): string[] {
  const faults: string[] = []
  page.on('pageerror', (error) => faults.push(`thrown: ${error.stack ?? error.message}`))
  page.on('dialog', (dialog) => {
    faults.push(`a dialog: ${dialog.message()}`)
    void dialog.dismiss()
  })
  page.on('console', (message) => {
    const text = message.text()
    // What the page asks for and is refused is said there too, and is no fault.
    if (message.type() === 'error' && !/^Failed to load resource/.test(text)) faults.push(text)
  })
  page.on('request', (request) => {
    const { origin, protocol } = new URL(request.url())
    if (
      protocol !== 'blob:' &&
      protocol !== 'data:' &&
      origin !== new URL(page.url()).origin &&
      page.url() !== 'about:blank'
    )
      faults.push(`asks elsewhere: ${request.url()}`)
  })
  return faults
}
