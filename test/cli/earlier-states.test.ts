import { describe, expect, test } from 'vitest'
import { parseMoment } from '../../src/cli/flags.ts'
import { Workplace } from '../support/cli/workplace.ts'

const TIME = /\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z/
const time = expect.stringMatching(TIME)

describe.each(['a running node', 'a stopped node', 'a remote node'])('on %s', (where) => {
  // A command that opens the store itself leaves shipping to the node.
  const ships = where !== 'a stopped node'

  async function open(): Promise<Workplace> {
    const place = new Workplace()
    const node = await place.serve()
    if (where === 'a stopped node') await node.stop()
    if (where !== 'a remote node') return place
    return new Workplace({ CELLSTORE_URL: node.address, CELLSTORE_KEY: node.key })
  }

  test('earlier states of a cell are looked at, restored, and made cells of their own; deleted cells are found', async () => {
    const place = await open()
    const acme = await place.text('cells', 'create', '--name', 'acme')
    const count = (cell: string) => place.text('sql', cell, 'SELECT count(*) AS n FROM t', '--csv')
    await place.text('sql', 'acme', 'CREATE TABLE t AS SELECT 1')
    const first = await place.json<{ version: string; created_at: string }>('backup', 'acme')
    await place.text('sql', 'acme', 'INSERT INTO t VALUES (2)')
    const second = await place.json<{ version: string }>('backup', 'acme', '--incremental')
    await place.text('sql', 'acme', 'DELETE FROM t')

    const plan = await place.text('restore', 'acme', '--dry-run')
    expect(plan).toMatch(
      new RegExp(`^Would restore ${second.version}, .* ${TIME.source}, and read .*:\nOBJECT `),
    )
    expect(
      plan
        .split('\n')
        .slice(2)
        .map((line) => line.split(' ')[0]),
    ).toEqual([first.version, second.version])
    expect(await count('acme')).toBe('n\n0')

    const copy = await place.text('cells', 'create', '--from', 'acme', '--name', 'copy')
    const older = ['cells', 'create', '--from', acme, '--version', first.version]
    expect(await count(await place.text(...older))).toBe('n\n1')
    expect([copy === acme, await count('copy'), await count('acme')]).toEqual([
      false,
      ships ? 'n\n0' : 'n\n2',
      'n\n0',
    ])
    const between = new Date().toISOString()
    await place.text('sql', 'acme', 'INSERT INTO t VALUES (3), (4), (5)')
    const then = ['cells', 'create', '--from', 'acme', '--at', between]
    if (ships) expect(await count(await place.text(...then))).toBe('n\n0')
    else expect(await place.failure(...then)).toMatchObject({ code: 'backup_not_found' })

    expect(await place.json('restore', 'acme', '--dry-run', '--at', first.created_at)).toEqual({
      restored: false,
      version: first.version,
      kind: 'snapshot',
      timestamp: time,
      objects: [{ key: first.version, size_bytes: expect.any(Number) }],
      size_bytes: expect.any(Number),
      log_size_bytes: 0,
    })
    const restored = await place.json<{ replaced_at: string }>('restore', 'acme', '--at', first.created_at)
    const replaced_at = ships ? time : null
    expect(restored).toMatchObject({ restored: true, version: first.version, timestamp: time, replaced_at })
    expect(await count('acme')).toBe('n\n1')
    if (ships) {
      await place.text('restore', 'acme', '--at', restored.replaced_at)
      expect(await count('acme')).toBe('n\n3')
    }

    await place.text('cells', 'delete', 'acme')
    expect(await place.text('cells', 'list', '--deleted')).toMatch(
      new RegExp(
        `^ID +NAME +CREATED +DELETED +ACCOUNT\n${acme} +acme +${TIME.source} +${TIME.source} +\\S+$`,
      ),
    )
    expect(await place.json('cells', 'list', '--deleted')).toMatchObject({
      databases: [{ id: acme, deleted_at: time }],
    })
    expect(await place.text('cells', 'list')).not.toContain(acme)
    const again = ['cells', 'create', '--from', acme, '--name', 'acme', '--at', first.created_at]
    expect(await count(await place.text(...again))).toBe('n\n1')
  })

  test('a command line that can not be meant is refused', async () => {
    const place = await open()
    const acme = await place.text('cells', 'create', '--name', 'acme')
    const at = ['--at', '-10m']
    const version = ['--version', `snapshots/${acme}/backup-20200101T000000.000Z`]
    const refused = async (...args: string[]) => (await place.run(...args)).code
    expect(await refused('restore', 'acme', '--version', 'x', ...at)).toBe(2)
    expect(await refused('cells', 'create', ...at)).toBe(2)
    expect(await refused('restore', 'acme', '--at', 'yesterday')).toBe(2)
    expect(await place.failure('cells', 'create', '--from', 'nobody')).toMatchObject({
      code: 'cell_not_found',
    })
    expect(await place.failure('cells', 'create', '--from', 'acme', ...version)).toMatchObject({
      code: 'backup_not_found',
    })
    expect(await place.failure('restore', 'acme', ...at)).toMatchObject({ code: 'backup_not_found' })
  })
})

describe('a moment on the command line', () => {
  const now = Date.UTC(2027, 0, 31, 12)

  test.each([
    ['-90s', '2027-01-31T11:58:30.000Z'],
    ['-10m', '2027-01-31T11:50:00.000Z'],
    ['-24h', '2027-01-30T12:00:00.000Z'],
    ['-7d', '2027-01-24T12:00:00.000Z'],
    ['2027-01-31T12:00:00Z', '2027-01-31T12:00:00Z'],
    ['2027-01-31T12:00:00.25+05:30', '2027-01-31T12:00:00.25+05:30'],
  ])('%s is %s', (text, moment) => {
    expect(parseMoment(text, now)).toBe(moment)
  })

  test.each(['', '10m', '+10m', '-10', '--10m', '-0m', 'yesterday', '2027-01-31', '2027-02-30T00:00:00Z'])(
    '%j is refused',
    (text) => {
      expect(() => parseMoment(text, now)).toThrow(/It must be a time such as|A duration is/)
    },
  )
})
