import { Command } from 'commander'
import { afterEach, describe, expect, test, vi } from 'vitest'
import { addStoreFlags, parseDuration } from '../../src/cli/flags.ts'
import { codeOf } from '../support/thrown.ts'

describe('a duration', () => {
  test.each([
    ['1s', 1_000],
    ['30s', 30_000],
    ['15m', 900_000],
    ['24h', 86_400_000],
    ['7d', 604_800_000],
    ['007s', 7_000],
  ])('%s is %d ms', (text, ms) => {
    expect(parseDuration(text)).toBe(ms)
  })

  test.each([
    '',
    '15',
    's',
    '0s',
    '-1s',
    '1.5h',
    '500ms',
    '1 h',
    '1H',
    '1w',
    '1h30m',
    ' 1s',
    '1s\n',
    '9999999999d',
  ])('%j is none', (text) => {
    expect(codeOf(() => parseDuration(text))).toBe('invalid_setting')
  })
})

describe('the data directory', () => {
  const parse = (...args: string[]) => {
    const command = addStoreFlags(new Command().exitOverride().configureOutput({ writeErr() {} }))
    return command.parse(args, { from: 'user' }).opts()['dataDir']
  }
  afterEach(() => vi.unstubAllEnvs())

  test('is a path, also one with a colon', () => {
    expect(parse('--data-dir', 'a/file:b')).toBe('a/file:b')
    vi.stubEnv('CELLSTORE_DATA_DIR', '/data')
    expect(parse()).toBe('/data')
  })

  test('is no URL, which would make a folder that is called file:', () => {
    expect(() => parse('--data-dir', 'file:///data')).toThrow(
      /--data-dir <folder>.* It must be a path, not a URL: write \/data\.$/,
    )
    vi.stubEnv('CELLSTORE_DATA_DIR', 'file:///data')
    expect(() => parse()).toThrow(/CELLSTORE_DATA_DIR.* It must be a path, not a URL: write \/data\.$/)
  })
})
