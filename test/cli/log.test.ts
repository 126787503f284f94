import { randomBytes } from 'node:crypto'
import { describe, expect, test } from 'vitest'
import { makeApiKey } from '../../src/auth/api-key.ts'
import { createLog, type LogLevel } from '../../src/cli/log.ts'
import { CellError } from '../../src/errors.ts'

function logTo(isTTY: boolean, level: LogLevel = 'info') {
  const lines: string[] = []
  return { lines, log: createLog(level, { isTTY, write: (text) => lines.push(text) }) }
}

describe('the log', () => {
  test('is one JSON object a line', () => {
    const { lines, log } = logTo(false)
    log.warn({ cellId: 'x' }, 'a cell is slow')
    log.info({}, 'and so on')
    const [first, second] = lines.map((line) => JSON.parse(line))
    expect(first).toMatchObject({ level: 40, cellId: 'x', msg: 'a cell is slow', pid: process.pid })
    expect(first.time).toMatch(/^\d{4}-\d\d-\d\dT.*Z$/)
    expect(second).toMatchObject({ level: 30, msg: 'and so on' })
    expect(lines.every((line) => line.endsWith('}\n'))).toBe(true)
  })

  test('is for people on a terminal', () => {
    const { lines, log } = logTo(true)
    log.warn(
      { retryMs: 250, err: new CellError('object_store_unavailable', 'Nobody answers.') },
      'trying again',
    )
    expect(lines).toEqual([
      expect.stringMatching(/^\d\d:\d\d:\d\d warn {2}trying again retryMs=250 \(Nobody answers\.\)\n$/),
    ])
  })

  test('has the code of a foreseen error and what was behind it, and no stack', () => {
    const { lines, log } = logTo(false)
    const cause = new Error('connect ECONNREFUSED 127.0.0.1:1')
    log.warn({ err: new CellError('object_store_unavailable', 'Nobody answers.', { cause }) }, 'trying again')
    expect(JSON.parse(lines[0] ?? '').err).toEqual({
      type: 'CellError',
      message: 'Nobody answers.: connect ECONNREFUSED 127.0.0.1:1',
      code: 'object_store_unavailable',
      details: {},
    })
  })

  test('shows where an error came from that nobody foresaw', () => {
    const { lines, log } = logTo(true)
    log.error({ err: new TypeError('x is not a function') }, 'a bug')
    expect(lines[0]).toMatch(/TypeError: x is not a function\n\s+at .*log\.test\.ts/)
  })

  test('writes out what a terminal would obey in an error: it can be text of a tenant', () => {
    const { lines, log } = logTo(true)
    log.error({ err: new CellError('sql_error', 'no\u001b[2J') }, 'a line')
    expect(lines[0]).toMatch(/ a line \(.*no\\x1b\[2J\)\n$/)
  })

  test('writes them out in a field, too, and once', () => {
    const { lines, log } = logTo(true)
    log.warn({ key: 'a\u009b2J\u001b\u007f' }, 'a line')
    expect(lines[0]).toMatch(/ a line key="a\\x9b2J\\u001b\\x7f"\n$/)
  })

  test('leaves out what its level leaves out', () => {
    const { lines, log } = logTo(false, 'error')
    log.warn({}, 'no')
    log.error({}, 'yes')
    expect(lines).toHaveLength(1)
    const silent = logTo(false, 'silent')
    silent.log.error({}, 'no')
    expect(silent.lines).toEqual([])
  })

  test.each([true, false])('never shows a key, wherever it is (invariant 12; terminal: %s)', (isTTY) => {
    const { lines, log } = logTo(isTTY)
    const key = makeApiKey(randomBytes)
    log.error({ key, nested: { key }, err: new Error(`bad ${key}`) }, `the key ${key}`)
    expect(lines.join('')).not.toContain(key.slice(0, 16))
    expect(lines.join('')).toContain('cell_sk_…')
  })
})
