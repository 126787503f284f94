import { randomBytes } from 'node:crypto'
import fs from 'node:fs'
import path from 'node:path'
import { describe, expect, test } from 'vitest'
import { makeApiKey } from '../../../src/auth/api-key.ts'
import { remoteNodeOf } from '../../../src/cli/remote/remote-node.ts'
import { tempDirectory } from '../../support/temp-directory.ts'
import { thrownBy } from '../../support/thrown.ts'

const key = makeApiKey(randomBytes)
const environment = { CELLSTORE_KEY: key }

describe('the URL of a node', () => {
  test.each([
    ['https://cells.example.com', 'https://cells.example.com'],
    ['https://cells.example.com/', 'https://cells.example.com'],
    ['https://example.com/cells/', 'https://example.com/cells'],
    ['http://127.0.0.1:8787', 'http://127.0.0.1:8787'],
    ['http://127.9.9.9', 'http://127.9.9.9'],
    ['http://localhost:8787', 'http://localhost:8787'],
    ['http://[::1]:8787', 'http://[::1]:8787'],
  ])('%s is %s', (url, baseUrl) => {
    expect(remoteNodeOf(url, {}, environment)).toEqual({ baseUrl, apiKey: key })
  })

  test.each([
    ['cells.example.com', /such as https:/],
    ['ftp://cells.example.com', /such as https:/],
    ['', /such as https:/],
    ['https://me:secret@cells.example.com', /password/],
    ['https://cells.example.com?a=b', /no \?/],
    ['https://cells.example.com/v1', /Leave \/v1 out/],
    ['https://cells.example.com/v1/', /Leave \/v1 out/],
    ['http://cells.example.com', /plain http.*--allow-http/],
    ['http://10.0.0.7:8787', /plain http/],
    ['http://localhost.example.com', /plain http/],
    ['http://127.0.0.1.example.com', /plain http/],
    ['http://[::2]', /plain http/],
  ])('%s is refused', (url, why) => {
    const error = thrownBy(() => remoteNodeOf(url, {}, environment))
    expect(error).toMatchObject({ code: 'invalid_setting', message: expect.stringMatching(why) })
    expect(error.message).not.toContain('secret')
  })

  test('may be plain http to another machine if that is allowed', () => {
    expect(remoteNodeOf('http://10.0.0.7', { allowHttp: true }, environment).baseUrl).toBe('http://10.0.0.7')
  })
})

describe('the key of a node', () => {
  const url = 'https://cells.example.com'

  test('comes from a file before it comes from the variable', () => {
    const keyFile = path.join(tempDirectory(), 'key')
    fs.writeFileSync(keyFile, `${key}\n`)
    expect(remoteNodeOf(url, { keyFile }, { CELLSTORE_KEY: makeApiKey(randomBytes) }).apiKey).toBe(key)
    expect(remoteNodeOf(url, { keyFile }, {}).apiKey).toBe(key)
  })

  test('is asked for, and nothing that is no key is ever sent', () => {
    expect(thrownBy(() => remoteNodeOf(url, {}, {}))).toMatchObject({
      code: 'invalid_setting',
      message: expect.stringContaining('CELLSTORE_KEY'),
    })
    const wrong = thrownBy(() => remoteNodeOf(url, {}, { CELLSTORE_KEY: 'my password' }))
    expect(wrong.message).toContain('no API key')
    expect(wrong.message).not.toContain('my password')
  })
})
