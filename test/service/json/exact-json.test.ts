import { expect, test, vi } from 'vitest'
import { parseJson } from '../../../src/service/json/exact-json.ts'
import { codeOf } from '../../support/thrown.ts'

const parse = (text: string) => parseJson(Buffer.from(text))
const typed = (value: string) => ({ type: 'integer', value })
const INT64_MAX = '9223372036854775807'

test.each<[text: string, value: unknown]>([
  [`[${INT64_MAX}]`, [typed(INT64_MAX)]],
  [
    `{"a": -${INT64_MAX} , "b" :[\t1,${INT64_MAX}\n]}`,
    { a: typed(`-${INT64_MAX}`), b: [1, typed(INT64_MAX)] },
  ],
  ['[9007199254740991,-9007199254740991]', [9007199254740991, -9007199254740991]],
  ['[9007199254740992]', [typed('9007199254740992')]],
  [
    '[9007199254740993.5,12345678901234567e3,0.12345678901234566]',
    [9007199254740994, 12345678901234567e3, 0.12345678901234566],
  ],
  [
    `["${INT64_MAX}","\\"${INT64_MAX},","a\\\\",${INT64_MAX}]`,
    [INT64_MAX, `"${INT64_MAX},`, 'a\\', typed(INT64_MAX)],
  ],
  [`{"${INT64_MAX}":1}`, { [INT64_MAX]: 1 }],
  [INT64_MAX, Number(INT64_MAX)],
  [`[${'9'.repeat(1_000)}]`, [typed('9'.repeat(1_000))]],
])('%s keeps every digit', (text, value) => {
  expect(parse(text)).toEqual(value)
})

test.each([
  `[0${INT64_MAX}]`,
  `[--${INT64_MAX}]`,
  `[1 ${INT64_MAX}]`,
  `[+${INT64_MAX}]`,
  `[a${INT64_MAX}]`,
  `{${INT64_MAX}:1}`,
  `{,${INT64_MAX}}`,
  `[${INT64_MAX}`,
  `["${INT64_MAX}]`,
  `[${INT64_MAX}\u00a0]`,
])('%s is still no JSON', (text) => {
  expect(codeOf(() => parse(text))).toBe('invalid_json')
})

test.each([['["1234567890123456",1,2,3]'], ['[1234567890123456789,1,2,3]']])(
  '%s is parsed without a look at each of its elements',
  (text) => {
    const parses = vi.spyOn(JSON, 'parse')
    parse(text)
    expect(parses.mock.calls.map((given) => given.length)).toEqual([1])
  },
)
