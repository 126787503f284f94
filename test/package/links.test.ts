import fs from 'node:fs'
import path from 'node:path'
import { expect, test } from 'vitest'
import packageJson from '../../package.json' with { type: 'json' }
import { PROJECT } from '../support/package/run.ts'

/** What npm packs whatever `files` says. */
const ALWAYS = ['README.md', 'LICENSE', 'package.json']
const PAGES = ['README.md', 'CHANGELOG.md', ...fs.globSync('docs/**/*.md', { cwd: PROJECT })]

test.each(PAGES)('every link of %s leads to a page of the package, and to a title on it', (page) => {
  const links = [...read(page).matchAll(/\]\(([^)\s]+)\)/g)].map(([, link = '']) => link)
  const broken = links.filter((link) => !/^https?:/.test(link) && !leadsSomewhere(page, link))
  expect(broken).toEqual([])
})

test.each(PAGES)('each test and program that %s names exists', (page) => {
  const named = [...read(page).matchAll(/`((?:test|src|bench|scripts)\/[\w/.-]*\.ts)`/g)]
  const missing = named
    .map(([, file = '']) => file)
    .filter((file) => !fs.existsSync(path.join(PROJECT, file)))
  expect(missing).toEqual([])
})

/** Words, so that a page is read to its end. */
const WORDS_MAX: [page: string, max: number][] = [
  ['docs/architecture.md', 3_000],
  ['docs/promises.md', 3_500],
  ...fs.globSync('docs/decisions/*.md', { cwd: PROJECT }).map((page): [string, number] => [page, 400]),
]

test.each(WORDS_MAX)('%s has at most %i words', (page, max) => {
  expect(read(page).split(/\s+/).filter(Boolean).length).toBeLessThanOrEqual(max)
})

test('CHANGELOG.md has at most 120 lines', () => {
  expect(read('CHANGELOG.md').trimEnd().split('\n').length).toBeLessThanOrEqual(120)
})

function leadsSomewhere(page: string, link: string): boolean {
  const [to = '', title] = link.split('#')
  const target = to === '' ? page : path.join(path.dirname(page), to)
  const isPacked = [...ALWAYS, ...packageJson.files].includes(target.split(path.sep)[0] as string)
  if (!isPacked || !fs.existsSync(path.join(PROJECT, target))) return false
  return title === undefined || titlesOf(target).includes(title)
}

/** As addresses, as GitHub makes them. */
function titlesOf(page: string): string[] {
  const titles = [...read(page).matchAll(/^#+ (.*)$/gm)].map(([, title = '']) => title)
  return titles.map((title) =>
    title
      .toLowerCase()
      .replace(/[^\p{L}\p{N}_\- ]/gu, '')
      .replaceAll(' ', '-'),
  )
}

function read(page: string): string {
  return fs.readFileSync(path.join(PROJECT, page), 'utf8')
}
