import { describe, expect, test } from 'vitest'
import { openTestCell } from '../support/open-test-store.ts'
import { codeOf, rejectedBy, thrownBy } from '../support/thrown.ts'

describe('a put with ifVersion', () => {
  test('null is done only where there is no live entry', async () => {
    const { clock, cell } = await openTestCell()
    const { kv } = cell
    expect(kv.put('k', '1', { ifVersion: null, ttlSeconds: 5 })).toMatchObject({
      created: true,
      ttlSeconds: 5,
    })
    expect(thrownBy(() => kv.put('k', '2', { ifVersion: null }))).toMatchObject({
      code: 'precondition_failed',
      kind: 'conflict',
    })
    expect(kv.entry('k')).toMatchObject({ value: '1', ttlSeconds: 5 })
    clock.step(5_000)
    expect(kv.put('k', '3', { ifVersion: null })).toMatchObject({ created: true, ttlSeconds: -1 })
    expect(kv.get('k')).toBe('3')
    kv.delete('k')
    expect(kv.put('k', '4', { ifVersion: null, keepTtl: true })).toMatchObject({ created: true })
  })

  test("'*' is done only where there is a live entry", async () => {
    const { clock, cell } = await openTestCell()
    const { kv } = cell
    expect(codeOf(() => kv.put('k', '1', { ifVersion: '*' }))).toBe('precondition_failed')
    expect(kv.get('k')).toBeUndefined()
    kv.put('k', '1', { ttlSeconds: 5 })
    expect(kv.put('k', '2', { ifVersion: '*', keepTtl: true })).toMatchObject({
      created: false,
      ttlSeconds: 5,
    })
    clock.step(5_000)
    for (const keepTtl of [true, false]) {
      expect(codeOf(() => kv.put('k', '3', { ifVersion: '*', keepTtl }))).toBe('precondition_failed')
    }
    expect(kv.get('k')).toBeUndefined()
  })

  test('of a version is done only while the entry has it', async () => {
    const { clock, cell } = await openTestCell()
    const { kv } = cell
    const first = kv.put('k', '1', { ttlSeconds: 5 })
    const second = kv.put('k', '2', { ifVersion: first.version, keepTtl: true })
    expect(second).toMatchObject({ created: false, ttlSeconds: 5 })
    for (const keepTtl of [true, false]) {
      expect(codeOf(() => kv.put('k', '3', { ifVersion: first.version, keepTtl }))).toBe(
        'precondition_failed',
      )
    }
    expect(kv.entry('k')).toMatchObject({ value: '2', version: second.version })
    clock.step(5_000)
    expect(codeOf(() => kv.put('k', '3', { ifVersion: second.version }))).toBe('precondition_failed')
    expect(kv.get('k')).toBeUndefined()
  })

  test.each(['', '0', '007', 'abc', '"1"', '-1', '9223372036854775808', '9'.repeat(30)])(
    'of %j, which no entry can have, changes nothing',
    async (ifVersion) => {
      const { kv } = (await openTestCell()).cell
      kv.put('k', '1')
      expect(codeOf(() => kv.put('k', '2', { ifVersion }))).toBe('precondition_failed')
      expect(codeOf(() => kv.delete('k', { ifVersion }))).toBe('precondition_failed')
      expect(kv.get('k')).toBe('1')
    },
  )

  test.each([undefined, 7, true, {}, 5n])('of %s is refused', async (ifVersion) => {
    const { kv } = (await openTestCell()).cell
    kv.put('k', '1')
    const refused = { code: 'invalid_request', details: { field: 'ifVersion' } }
    expect(thrownBy(() => kv.put('k', '2', { ifVersion: ifVersion as never }))).toMatchObject(refused)
    expect(thrownBy(() => kv.delete('k', { ifVersion: ifVersion as never }))).toMatchObject(refused)
    expect(kv.get('k')).toBe('1')
  })

  test('in a list makes all of it fail, and the error names the entry', async () => {
    const { kv } = (await openTestCell()).cell
    const { version } = kv.put('a', '1')
    const put = (ifVersion: string | null) =>
      kv.put([
        { key: 'new', value: '2', ifVersion: null },
        { key: 'a', value: '2', ifVersion, keepTtl: true },
      ])
    expect(thrownBy(() => put('1'))).toMatchObject({
      code: 'precondition_failed',
      details: { field: 'entries[1].ifVersion' },
    })
    expect(kv.get(['a', 'new'])).toEqual(['1', undefined])
    expect(put(version)).toMatchObject([{ created: true }, { created: false }])
    expect(kv.get(['a', 'new'])).toEqual(['2', '2'])
  })

  test('in a transaction undoes all of it, unless it is caught', async () => {
    const { cell } = await openTestCell()
    cell.kv.put('taken', '1')
    const work = (): void => {
      cell.kv.put('before', '1')
      cell.kv.put('taken', '2', { ifVersion: null })
    }
    expect(codeOf(() => cell.transaction(work))).toBe('precondition_failed')
    expect(cell.kv.get(['before', 'taken'])).toEqual([undefined, '1'])
    cell.transaction(() => expect(codeOf(work)).toBe('precondition_failed'))
    expect(cell.kv.get(['before', 'taken'])).toEqual(['1', '1'])
  })

  test('sees what was changed before in the same group', async () => {
    const { cell } = await openTestCell()
    const put = (value: string) => cell.commit(() => cell.kv.put('k', value, { ifVersion: null }))
    const [first, second, third] = [put('1'), put('2'), put('3')]
    expect(await first).toMatchObject({ created: true })
    for (const late of [second, third]) expect((await rejectedBy(late)).code).toBe('precondition_failed')
    expect(cell.kv.get('k')).toBe('1')
  })

  test('works with JSON', async () => {
    const { kv } = (await openTestCell()).cell
    const { version } = kv.putJson('k', { n: 1 }, { ifVersion: null })
    kv.putJson('k', { n: 2 }, { ifVersion: version })
    expect(codeOf(() => kv.putJson('k', { n: 3 }, { ifVersion: version }))).toBe('precondition_failed')
    expect(kv.getJson('k')).toEqual({ n: 2 })
  })
})

describe('a deletion with ifVersion', () => {
  test('is done only while the entry has the version', async () => {
    const { clock, cell } = await openTestCell()
    const { kv } = cell
    const { version } = kv.put('k', '1')
    const { version: newer } = kv.put('k', '2', { ttlSeconds: 5 })
    expect(codeOf(() => kv.delete('k', { ifVersion: version }))).toBe('precondition_failed')
    expect(kv.get('k')).toBe('2')
    clock.step(5_000)
    for (const ifVersion of [newer, '*']) {
      expect(codeOf(() => kv.delete('k', { ifVersion }))).toBe('precondition_failed')
    }
    kv.put('k', '3')
    expect(kv.delete('k', { ifVersion: '*' })).toBe(true)
    expect(kv.delete('k', { ifVersion: kv.put('k', '4').version })).toBe(true)
    expect(kv.delete('k')).toBe(false)
  })

  test('null is refused: there would be nothing to delete', async () => {
    const { kv } = (await openTestCell()).cell
    expect(codeOf(() => kv.delete('k', { ifVersion: null as never }))).toBe('invalid_request')
  })
})

describe('getdel', () => {
  test('returns the entry that it deletes, once', async () => {
    const { clock, cell } = await openTestCell()
    const { kv } = cell
    kv.put('k', 'v', { ttlSeconds: 60 })
    const entry = kv.entry('k')
    expect(kv.getdel('k')).toEqual(entry)
    expect([kv.getdel('k'), kv.get('k')]).toEqual([undefined, undefined])
    kv.put('k', 'v', { ttlSeconds: 60 })
    clock.step(60_000)
    expect(kv.getdel('k')).toBeUndefined()
  })

  test('of a list returns an entry for each key, and all or none', async () => {
    const { cell } = await openTestCell()
    cell.kv.put(['a', 'b', 'c'].map((key) => ({ key, value: key })))
    const undone = () =>
      cell.transaction(() => {
        cell.kv.getdel(['a', 'b'])
        throw new Error('undo')
      })
    expect(undone).toThrow('undo')
    expect(cell.kv.getdel(['b', 'none', 'a', 'b'])).toMatchObject([
      { value: 'b' },
      undefined,
      { value: 'a' },
      undefined,
    ])
    expect(cell.kv.list().entries.map(({ key }) => key)).toEqual(['c'])
  })
})
