import { describe, expect, test } from 'vitest'
import { parseJsonParams, typedParam } from '../../src/cli/commands/sql-command.ts'
import { codeOf } from '../support/thrown.ts'

describe('a parameter on the command line', () => {
  test.each([
    ['42', 42],
    ['0', 0],
    ['-7', -7],
    ['9007199254740991', 9007199254740991],
    ['9007199254740992', { type: 'integer', value: '9007199254740992' }],
    ['-9223372036854775808', { type: 'integer', value: '-9223372036854775808' }],
    ['9223372036854775808', '9223372036854775808'],
    ['null', null],
    ['NULL', 'NULL'],
    ['', ''],
    ['007', '007'],
    ['-0', '-0'],
    ['+1', '+1'],
    ['1.5', { type: 'real', value: 1.5 }],
    ['-0.25', { type: 'real', value: -0.25 }],
    ['1.0', { type: 'real', value: 1 }],
    ['1e3', { type: 'real', value: 1_000 }],
    ['2.5E-3', { type: 'real', value: 0.0025 }],
    ['1e999', '1e999'],
    ['.5', '.5'],
    ['5.', '5.'],
    ['0x10', '0x10'],
    ['1.2.3', '1.2.3'],
    [' 1', ' 1'],
    ['true', 'true'],
  ])('%j is %j', (word, param) => {
    expect(typedParam(word)).toEqual(param)
  })
})

describe('--json-params', () => {
  test('keeps every digit of an integer', () => {
    expect(parseJsonParams('["42", 9223372036854775807, 1.5, null, true]')).toEqual([
      '42',
      { type: 'integer', value: '9223372036854775807' },
      1.5,
      null,
      true,
    ])
    expect(parseJsonParams('{"a": 9007199254740993}')).toEqual({
      a: { type: 'integer', value: '9007199254740993' },
    })
  })

  test.each(['', '42', '"x"', 'null', '[1', '{a:1}'])('refuses %j', (text) => {
    expect(codeOf(() => parseJsonParams(text))).toBe('invalid_json')
  })
})
