import { describe, expect, test } from 'vitest'
import { parseDuration } from '../../src/cli/flags.ts'
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
