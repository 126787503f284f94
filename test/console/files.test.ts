import fs from 'node:fs'
import path from 'node:path'
import { gzipSync } from 'node:zlib'
import { describe, expect, test } from 'vitest'
import { Workplace } from '../support/cli/workplace.ts'
import { PROJECT } from '../support/package/run.ts'

const FOLDER = path.join(PROJECT, 'dist', 'console')
const GZIPPED_BYTES_MAX = 100_000

const read = (name: string) => fs.readFileSync(path.join(FOLDER, name), 'utf8')

/** A file and what it loads at once, without what it loads when a page asks for it. */
function loadedWith(name: string): string[] {
  const imported = [...read(name).matchAll(/(?:import|from)\s*"\.\/([^"]+\.js)"/g)].map(
    ([, file = '']) => file,
  )
  return [name, ...imported.flatMap(loadedWith)]
}

describe('the files of the console', () => {
  test('take at most 100 kB gzipped without the SQL editor', () => {
    const editor = fs
      .readdirSync(FOLDER)
      .filter((name) => name.endsWith('.js') && read(name).includes('cm-editor'))
    expect(editor).toHaveLength(1)
    const others = fs.readdirSync(FOLDER).filter((name) => /\.(js|css)$/.test(name) && !editor.includes(name))
    const size = others.reduce((sum, name) => sum + gzipSync(read(name)).length, 0)
    expect(size).toBeLessThan(GZIPPED_BYTES_MAX)
    expect(loadedWith('console.js')).not.toContain(editor[0])
  })

  test('come with the licenses of all packages that are in them', () => {
    const sources = fs.globSync('src/{console,client}/**/*.{ts,tsx}', { cwd: PROJECT })
    const imported = sources.flatMap((file) => [
      ...fs
        .readFileSync(path.join(PROJECT, file), 'utf8')
        .matchAll(/^import .*'((?:@[\w-]+\/)?[a-z][\w-]*)[\w/.-]*'$/gm),
    ])
    const packages = new Set<string>()
    const add = (name: string) => {
      if (packages.has(name)) return
      packages.add(name)
      const { dependencies = {} } = JSON.parse(
        fs.readFileSync(path.join(PROJECT, 'node_modules', name, 'package.json'), 'utf8'),
      ) as { dependencies?: Record<string, string> }
      Object.keys(dependencies).forEach(add)
    }
    for (const [, name = ''] of imported) add(name)
    expect([...packages]).toEqual(expect.arrayContaining(['preact', 'uplot', 'codemirror', '@lezer/lr']))
    expect(read('LICENSES.txt').split('\n')).toEqual(expect.arrayContaining([...packages]))
  })
})

describe('a node', () => {
  test('serves the console under a policy without exceptions, and names it at its start', async () => {
    const node = await new Workplace().serve('--workers', '0')
    expect(node.stdout).toContain(`the console is at ${node.address}/console\n`)
    const page = await fetch(`${node.address}/console`)
    expect(page.status).toBe(200)
    const policy = page.headers.get('content-security-policy') ?? ''
    expect(policy).toContain("default-src 'none'")
    expect(policy).toContain("script-src 'self';")
    expect(policy).not.toContain('unsafe')
    const html = await page.text()
    expect(html).not.toMatch(/<script>|<style|style=|\son\w+=|https?:/)
    for (const [, file = ''] of html.matchAll(/(?:src|href)="([^":]+)"/g)) {
      const answer = await fetch(`${node.address}/${file}`, { headers: { 'accept-encoding': 'gzip' } })
      expect(answer.status).toBe(200)
      expect(answer.headers.get('content-encoding')).toBe('gzip')
      const known = { 'if-none-match': answer.headers.get('etag') ?? '' }
      expect((await fetch(`${node.address}/${file}`, { headers: known })).status).toBe(304)
    }
  })

  test('answers what is no file of the console as any other unknown path without a key', async () => {
    const node = await new Workplace().serve('--workers', '0')
    const status = async (route: string, init: RequestInit = {}) =>
      (await fetch(`${node.address}${route}`, { redirect: 'manual', ...init })).status
    expect(await status('/console/')).toBe(308)
    expect(await status('/console/../package.json')).toBe(401)
    expect(await status('/console/%2e%2e%2fcellstore.js')).toBe(401)
    expect(await status('/console/nothing.js')).toBe(401)
    expect(await status('/consoles')).toBe(401)
    expect(await status('/console', { method: 'POST', body: 'x' })).toBe(401)
    expect(await status('/console', { method: 'HEAD' })).toBe(200)
  })

  test('with --no-console has none, and says nothing of it', async () => {
    const node = await new Workplace().serve('--workers', '0', '--no-console')
    expect(node.stdout).not.toContain('console')
    expect((await fetch(`${node.address}/console`)).status).toBe(401)
  })
})
