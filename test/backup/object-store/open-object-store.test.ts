import fs from 'node:fs'
import os from 'node:os'
import path from 'node:path'
import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest'
import { FileObjectStore } from '../../../src/backup/object-store/file/file-object-store.ts'
import { bufferBody } from '../../../src/backup/object-store/object-store.ts'
import { openObjectStore } from '../../../src/backup/object-store/open-object-store.ts'
import { S3ObjectStore } from '../../../src/backup/object-store/s3/s3-object-store.ts'
import { systemClock } from '../../../src/base/clock.ts'
import { CellError } from '../../../src/errors.ts'

const clock = systemClock
let folder: string
beforeEach(() => {
  folder = fs.mkdtempSync(path.join(os.tmpdir(), 'cellstore-open-'))
})
afterEach(() => {
  vi.unstubAllEnvs()
  fs.rmSync(folder, { recursive: true, force: true })
})

function refusal(url: string, dataDir?: string): string {
  try {
    openObjectStore(url, { clock, dataDir })
  } catch (error) {
    expect(error).toBeInstanceOf(CellError)
    expect(error).toMatchObject({ code: 'invalid_setting' })
    return error instanceof CellError ? error.message : ''
  }
  return expect.fail('it has to be refused')
}

describe('A folder as the object store', () => {
  test('is named by an absolute file URL', async () => {
    const store = openObjectStore(`file://${folder}/objects`, { clock })
    expect(store).toBeInstanceOf(FileObjectStore)
    expect(store.url).toBe(`file://${folder}/objects`)
    await store.put('a/b', bufferBody(Buffer.from('x')))
    expect(fs.readFileSync(path.join(folder, 'objects/a/b'), 'utf8')).toBe('x')
  })

  test.each([
    ['file://./objects', 'objects'],
    ['file://../objects', '../objects'],
    ['file://.', '.'],
    ['file://./a%20b/%C3%A9', 'a b/é'],
  ])('%s is taken from where the process runs', (url, relative) => {
    expect(openObjectStore(url, { clock }).url).toBe(
      new URL(`file://${encodeURI(path.resolve(relative))}`).href,
    )
  })

  test.each([
    ['./objects', 'file://./objects'],
    ['objects', 'file://./objects'],
    ['../objects', 'file://../objects'],
    ['/var/objects', 'file:///var/objects'],
  ])('a plain path, %s, is refused with the form that it takes', (plain, form) => {
    expect(refusal(plain)).toContain(form)
  })

  test.each([
    'file:objects',
    'file:/objects',
    'file://host/objects',
    'file://',
    'file:///',
    'file:///a?b=c',
    'file:///a#b',
    'file:///%zz',
  ])('%s is refused', (url) => {
    expect(refusal(url).length).toBeGreaterThan(20)
  })

  test.each(['http://example.test/', 'gs://bucket', 'S4://bucket', ''])('%j is no object store', (url) => {
    expect(refusal(url)).toMatch(/file:\/\//)
  })

  describe('and the data directory', () => {
    test.each([
      ['the same', 'data', 'data'],
      ['inside it', 'data/objects', 'data'],
      ['deep inside it', 'data/a/b/objects', 'data'],
      ['around it', '.', 'data'],
      ['far around it', '.', 'a/b/data'],
    ])('are refused when the store is %s', (_, objects, data) => {
      const root = path.join(folder, objects)
      expect(refusal(`file://${root}`, path.join(folder, data))).toMatch(/data directory/)
      fs.mkdirSync(path.join(folder, data), { recursive: true })
      fs.mkdirSync(root, { recursive: true })
      expect(refusal(`file://${root}`, path.join(folder, data))).toMatch(/data directory/)
    })

    test.each([
      ['beside it', 'objects', 'data'],
      ['beside it, with a name that goes on', 'data-objects', 'data'],
      ['beside it, with a name of dots', '..objects', 'data'],
    ])('are taken when the store is %s', (_, objects, data) => {
      const store = openObjectStore(`file://${path.join(folder, objects)}`, {
        clock,
        dataDir: path.join(folder, data),
      })
      expect(store).toBeInstanceOf(FileObjectStore)
    })

    test('are compared by where links lead', () => {
      fs.mkdirSync(path.join(folder, 'data/inner'), { recursive: true })
      fs.symlinkSync(path.join(folder, 'data'), path.join(folder, 'link'))
      fs.symlinkSync(path.join(folder, 'data/inner'), path.join(folder, 'looks-beside'))
      const data = path.join(folder, 'data')
      expect(refusal(`file://${folder}/link/objects`, data)).toMatch(/inside the data directory/)
      expect(refusal(`file://${folder}/looks-beside/new/objects`, data)).toMatch(/inside the data directory/)
      expect(refusal(`file://${folder}/data/objects`, path.join(folder, 'link'))).toMatch(
        /inside the data directory/,
      )
    })
  })
})

describe('S3 as the object store', () => {
  test.each([
    ['s3://bucket', 's3://bucket'],
    ['s3://bucket/', 's3://bucket'],
    ['s3://bucket/a/b/', 's3://bucket/a/b'],
    ['s3://bucket/a%20b?region=eu-west-1', 's3://bucket/a%20b?region=eu-west-1'],
    [
      's3://bucket/p?endpoint=http://127.0.0.1:7480&region=us-east-1&path_style=true',
      's3://bucket/p?endpoint=http%3A%2F%2F127.0.0.1%3A7480&region=us-east-1',
    ],
    [
      's3://bucket?endpoint=https://s3.example.test&path_style=false',
      's3://bucket?endpoint=https%3A%2F%2Fs3.example.test&region=us-east-1&path_style=false',
    ],
    ['s3://bucket?path_style=true', 's3://bucket?path_style=true'],
  ])('%s is taken, and names itself so that it can be opened again', (url, name) => {
    const store = openObjectStore(url, { clock, dataDir: folder })
    expect(store).toBeInstanceOf(S3ObjectStore)
    expect(store.url).toBe(name)
    expect(openObjectStore(name, { clock }).url).toBe(name)
  })

  describe('with an endpoint of the environment', () => {
    const THERE = 'http%3A%2F%2F127.0.0.1%3A9000'
    test.each<[string, Record<string, string>, string]>([
      ['AWS_ENDPOINT_URL', {}, `endpoint=${THERE}&region=us-east-1`],
      ['AWS_ENDPOINT_URL_S3', { AWS_ENDPOINT_URL: 'http://other' }, `endpoint=${THERE}&region=us-east-1`],
      ['AWS_ENDPOINT_URL', { AWS_REGION: 'garage' }, `endpoint=${THERE}&region=garage`],
      ['AWS_ENDPOINT_URL', { AWS_ENDPOINT_URL_S3: '' }, `endpoint=${THERE}&region=us-east-1`],
    ])('%s is as with endpoint=, beside %j', (name, others, query) => {
      for (const [other, value] of Object.entries(others)) vi.stubEnv(other, value)
      vi.stubEnv(name, 'http://127.0.0.1:9000')
      expect(openObjectStore('s3://bucket/p', { clock }).url).toBe(`s3://bucket/p?${query}`)
      expect(openObjectStore('s3://bucket?endpoint=http://mine', { clock }).url).toBe(
        's3://bucket?endpoint=http%3A%2F%2Fmine&region=us-east-1',
      )
      vi.stubEnv('AWS_IGNORE_CONFIGURED_ENDPOINT_URLS', 'true')
      expect(openObjectStore('s3://bucket/p', { clock }).url).toBe('s3://bucket/p')
    })

    test('that is none is refused by the name of the variable', () => {
      vi.stubEnv('AWS_ENDPOINT_URL', '127.0.0.1:9000')
      expect(refusal('s3://bucket')).toMatch(/AWS_ENDPOINT_URL/)
    })
  })

  test.each([
    ['s3://bucket?endpoit=http://x', /"endpoit"/],
    ['s3://bucket?access_key=AKIAEXAMPLE', /"access_key"/],
    ['s3://bucket?region=a&region=b', /"region" more than once/],
    ['s3://bucket?region=', /"region" without a value/],
    ['s3://bucket?path_style=yes', /path_style/],
    ['s3://bucket?endpoint=127.0.0.1:7480', /endpoint/],
    ['s3://bucket?endpoint=ftp://x', /endpoint/],
    ['s3://bucket?endpoint=http://x/?y=z', /endpoint/],
    ['s3://b!cket', /bucket/],
    ['s3://x', /bucket/],
    ['s3:///prefix', /bucket/],
    ['s3:bucket', /s3:\/\/bucket/],
    ['s3://bucket:80/p', /s3:\/\/bucket/],
    ['s3://bucket/p#x', /s3:\/\/bucket/],
    ['s3://bucket/a//b', /prefix/],
    ['s3://bucket/a/%2e%2e%2fb', /prefix/],
    [`s3://bucket/${'x'.repeat(600)}`, /prefix/],
    ['s3://bucket/%zz', /%/],
  ])('%s is refused with the reason', (url, reason) => {
    expect(refusal(url)).toMatch(reason)
  })

  test.each([
    's3://AKIAEXAMPLE:s3cr3t@bucket/p',
    's3://AKIAEXAMPLE@bucket/p',
    's3://bucket?endpoint=http://AKIAEXAMPLE:s3cr3t@127.0.0.1:7480',
    's3://bucket?secret=s3cr3t-AKIAEXAMPLE',
    's3://bucket?s3cr3t/AKIAEXAMPLE+1=',
  ])('a credential in the URL is refused and not repeated: %s', (url) => {
    const message = refusal(url)
    expect(message).not.toContain('s3cr3t')
    expect(message).not.toContain('AKIAEXAMPLE')
  })

  test('checks the sizes that only the library can set', () => {
    for (const options of [{ partSizeBytes: 1024 }, { partSizeBytes: 1e9 + 0.5 }, { concurrency: 0 }]) {
      expect(() => new S3ObjectStore({ bucket: 'bucket', ...options })).toThrow(/must be a whole number/)
    }
  })
})
