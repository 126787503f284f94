import { type ChildProcess, fork } from 'node:child_process'
import fs from 'node:fs'
import path from 'node:path'
import { afterEach, describe, expect, test } from 'vitest'
import { peer, peerInTwoProcesses } from '../../bench/peers/http/bare.ts'
import { ask } from '../../bench/peers/http/http-peer.ts'
import { assertKeeps } from '../../bench/peers/http/servers.ts'
import { compareLibraries } from '../../bench/peers/library/group.ts'
import { WORKS } from '../../bench/peers/library/works.ts'
import { packageVersion, programOnPath } from '../../bench/peers/packages.ts'
import { newestOfEachGroup, type Outcome, type Results, writeResults } from '../../bench/peers/results.ts'
import { listing, table } from '../../bench/peers/table.ts'
import { takeTurns } from '../../bench/peers/turns.ts'
import { tempDirectory } from '../support/temp-directory.ts'

const TINY = { rounds: 1, turnMs: 2 }

describe('the comparison with peers', () => {
  test('measures all works of the stores that need no package of bench/peers', async () => {
    const names = ['cellstore', 'better-sqlite3', 'node:sqlite'] as const
    const rows = await compareLibraries(tempDirectory(), TINY, [...names])
    expect(rows.map(({ what }) => what)).toEqual(Object.keys(WORKS))
    for (const { contenders } of rows)
      for (const name of names) {
        const measured = contenders[name] as Extract<Outcome, { median: number }>
        expect(measured).toMatchObject({ version: expect.stringMatching(/\d/), median: expect.any(Number) })
        expect(measured.median).toBeGreaterThan(0)
        expect(measured.p99).toBeGreaterThanOrEqual(measured.p50 as number)
      }
  })

  test('a peer that cannot be had is absent with the reason, never left out', async () => {
    expect(() => packageVersion('no-such-peer')).toThrow('no-such-peer is not installed')
    expect(() => programOnPath('no-such-peer', 'apt-get install it')).toThrow('apt-get install it')
    const contenders = [
      { name: 'cellstore', version: '1' },
      { name: 'broken', version: '2' },
    ]
    const outcomes = await takeTurns(contenders, {
      rounds: 3,
      turn: async ({ name }) => {
        if (name === 'broken') throw new Error('it has no disk')
        return { value: 2 }
      },
    })
    expect(outcomes).toEqual({
      cellstore: { version: '1', median: 2, min: 2, max: 2 },
      broken: { absent: 'it failed: it has no disk' },
    })
    const text = table([{ group: 'library', what: 'get', unit: '/s', contenders: outcomes }])
    expect(text).toContain('| get | 2/s | absent |')
    expect(text).toContain('- broken: *absent, because it failed: it has no disk*')
  })

  test('the table says how many times as good cellstore is: more per second, or less time', () => {
    const of = (median: number) => ({ version: '1', median, min: median, max: median })
    const contenders = { cellstore: of(10), peer: of(5) }
    expect(table([{ group: 'http', what: 'GET', unit: '/s', contenders }])).toContain('5/s<br>**× 2.0**')
    expect(table([{ group: 'backup', what: 'restore', unit: 's', contenders }])).toContain(
      '5 s<br>**× 0.50**',
    )
  })

  test('the table says which rows a peer misses that others have, and has a table for each circle of contenders', () => {
    const of = (median: number) => ({ version: '1', median, min: median, max: median })
    const row = (what: string, contenders: Record<string, Outcome>) =>
      ({ group: 'fleet', what, unit: '/s', at: 1_000, of: 'databases', contenders }) as const
    const rows = [
      row('GET', { cellstore: of(1_000), peer: of(2) }),
      row('PUT', { cellstore: of(10), peer: { absent: 'it has none' } }),
      row('in process', { cellstore: of(10), library: of(0.0512) }),
    ]
    const text = table(rows)
    expect(text).toContain('| Work | How many | cellstore | peer |')
    expect(text).toContain('| GET | 1,000 databases | 1,000/s | 2/s<br>**× 500** |')
    expect(text).toContain('- peer: *absent, because it has none* (PUT, 1,000 databases)')
    expect(text).toContain('| Work | How many | cellstore | library |')
    expect(listing(rows)).toMatch(
      /^in process, 1,000 databases\n {2}cellstore +10\/s\n {2}library +0\.0512\/s {2}× 195$/m,
    )
  })

  test('a turn without an answer has no figure, and a peer with no other turn is absent', async () => {
    const given = { cellstore: [Number.NaN, 2, 3], silent: [Number.NaN, Number.NaN, Number.NaN] }
    const contenders = [
      { name: 'cellstore', version: '1' },
      { name: 'silent', version: '2' },
    ] as const
    const outcomes = await takeTurns(contenders, {
      rounds: 3,
      turn: async ({ name }) => ({ value: given[name].shift() as number }),
    })
    expect(outcomes).toMatchObject({
      cellstore: { min: 2, max: 3 },
      silent: { absent: 'it answered nothing in its turns' },
    })
  })

  test.each([
    ['one process', peer],
    ['two processes', peerInTwoProcesses],
  ])('the bare server in %s keeps entries and runs statements', async (_, { start }) => {
    const server = await start(tempDirectory())
    try {
      const database = await server.createDatabase()
      await assertKeeps(server, database)
      await ask(server, server.sql(database, 'CREATE TABLE notes (note TEXT)', []))
      await Promise.all(
        ['a', 'ü€'].map((note) => ask(server, server.sql(database, 'INSERT INTO notes VALUES (?)', [note]))),
      )
      const select = server.sql(database, 'SELECT note FROM notes ORDER BY note', [])
      expect(JSON.parse(await ask(server, select))).toEqual({ rows: [{ note: 'a' }, { note: 'ü€' }] })
    } finally {
      await server.stop()
    }
  })

  test('of each group the page shows the newest results', () => {
    const folder = tempDirectory()
    const run = (date: string, ...groups: string[]) =>
      writeResults(
        { date, rows: groups.map((group) => ({ group, what: date, unit: '/s', contenders: {} })) } as Results,
        folder,
      )
    run('2026-01-01T00:00:00Z', 'library', 'http')
    run('2026-01-02T00:00:00Z', 'http')
    const shown = [...newestOfEachGroup(folder)].map(([group, { rows }]) => [
      group,
      rows.map((row) => row.what),
    ])
    expect(Object.fromEntries(shown)).toEqual({
      library: ['2026-01-01T00:00:00Z'],
      http: ['2026-01-02T00:00:00Z'],
    })
  })
})

describe('turns', () => {
  const children: ChildProcess[] = []
  afterEach(() => {
    for (const child of children.splice(0)) child.kill('SIGKILL')
  })

  test('only the one whose turn it is has the processors, and all run again afterwards', async () => {
    const program = path.join(tempDirectory(), 'spin.mjs')
    fs.writeFileSync(program, 'setInterval(() => {}, 1)')
    const contenders = ['one', 'two', 'three'].map((name) => {
      const child = fork(program)
      children.push(child)
      return { name, version: '1', pid: child.pid as number }
    })
    const stopped = () => contenders.filter(({ pid }) => stateOf(pid) === 'T').map(({ name }) => name)
    const seen: Record<string, string[]> = {}
    await takeTurns(contenders, {
      rounds: 1,
      turn: async ({ name }) => {
        await expect.poll(stopped).toHaveLength(2)
        seen[name] = stopped()
        return { value: 1 }
      },
    })
    expect(seen).toEqual({ one: ['two', 'three'], two: ['one', 'three'], three: ['one', 'two'] })
    await expect.poll(stopped).toEqual([])
  })
})

function stateOf(pid: number): string | undefined {
  return /\) (\w)/.exec(fs.readFileSync(`/proc/${pid}/stat`, 'utf8'))?.[1]
}
