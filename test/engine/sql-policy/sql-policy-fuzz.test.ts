import { setImmediate } from 'node:timers/promises'
import Database from 'better-sqlite3'
import { describe, expect, test } from 'vitest'
import { checkStatement } from '../../../src/engine/sql-policy/sql-policy.ts'
import { SqlStatement, type StatementVerb } from '../../../src/engine/sql-policy/sql-statement.ts'
import { isCellError } from '../../../src/errors.ts'
import { countOf } from '../../support/counts.ts'
import type { Random } from '../../support/random.ts'
import { seededRandom } from '../../support/seed.ts'
import { HONEST_SQL } from '../../support/sql/honest-sql.ts'
import { disguise, mutate, wrap } from '../../support/sql/sql-disguise.ts'
import { ALLOWED, FORBIDDEN, VOCABULARY } from '../../support/sql/sql-statements.ts'
import { type Outcome, TenantDatabase } from '../../support/sql/tenant-database.ts'

const STATEMENTS = countOf('CELLSTORE_FUZZ_COUNT')

/** Statements that one database has to bear before a fresh one takes over, and the driver can collect the old ones. */
const STATEMENTS_PER_DATABASE = 2_000

/** Without those that run for ever once they lose their WHERE. */
const ORDINARY = HONEST_SQL.filter((sql) => !/RECURSIVE|UNION ALL/.test(sql))

function isAllowed(sql: string): boolean {
  const statement = new SqlStatement(sql)
  try {
    checkStatement(statement.takeTokens(), statement.head)
    return true
  } catch (error) {
    if (isCellError(error, 'statement_not_allowed')) return false
    throw error
  }
}

/** Something built from forbidden, allowed and ordinary statements, more or less well-formed. */
function variant(random: Random): string {
  const isOrdinary = random.chance(0.3)
  const listed = random.chance(0.5) ? FORBIDDEN : ALLOWED
  let sql = isOrdinary ? random.pick(ORDINARY).replaceAll(/\s+/g, ' ') : random.pick(listed)
  if (random.chance(0.4)) sql = wrap(sql, random)
  if (random.chance(0.6)) sql = mutate(sql, VOCABULARY, random)
  if (random.chance(0.2)) sql = wrap(sql, random)
  return random.chance(isOrdinary ? 0.2 : 0.8) ? disguise(sql, random) : sql
}

/** A database with all that ordinary schemas have. */
function freshTenantDatabase(): TenantDatabase {
  const database = new TenantDatabase()
  for (const sql of HONEST_SQL) database.run(sql)
  expect(database.violations(false)).toEqual([])
  return database
}

function runAlone(database: TenantDatabase, sql: string): Outcome {
  const outcome = database.run(sql)
  expect(database.violations(false), JSON.stringify(sql)).toEqual([])
  return outcome
}

/**
 * As in a group commit: the neighbours' work before and behind it must be committed, whatever the statement does. A
 * deferred foreign key alone may fail the COMMIT; that is for the group commit to deal with.
 */
function runInGroup(database: TenantDatabase, sql: string): Outcome {
  const { connection } = database
  connection.exec('BEGIN IMMEDIATE; UPDATE main._cell_meta SET value = value; SAVEPOINT work')
  const outcome = database.run(sql)
  expect(database.violations(true), JSON.stringify(sql)).toEqual([])
  if (outcome === 'failed') connection.exec('ROLLBACK TO work')
  try {
    connection.exec('RELEASE work; UPDATE main._cell_kv SET value = value; COMMIT')
  } catch (error) {
    const { code } = error as { code?: string }
    expect(code, `${error} behind ${JSON.stringify(sql)}`).toBe('SQLITE_CONSTRAINT_FOREIGNKEY')
    connection.exec('ROLLBACK')
  }
  return outcome
}

describe('invariants 5 and 6, on a real database', () => {
  test('a forbidden statement never passes, however it is written', () => {
    const random = seededRandom()
    for (let round = STATEMENTS; round > 0; round--) {
      const sql = disguise(random.pick(FORBIDDEN), random)
      expect(isAllowed(sql), JSON.stringify(sql)).toBe(false)
    }
  })

  test('an allowed statement passes, however it is written', () => {
    const random = seededRandom()
    for (let round = STATEMENTS; round > 0; round--) {
      const sql = disguise(random.pick(ALLOWED), random)
      expect(isAllowed(sql), JSON.stringify(sql)).toBe(true)
    }
  })

  test('what passes touches nothing but the tenant tables', async () => {
    const random = seededRandom()
    const count = { refused: 0, ran: 0, failed: 0 }
    let database = new TenantDatabase()
    try {
      for (let round = STATEMENTS; round > 0; round--) {
        const sql = database.inPlace(variant(random))
        if (!isAllowed(sql)) {
          count.refused++
          continue
        }
        const outcome = random.chance(0.5) ? runAlone(database, sql) : runInGroup(database, sql)
        count[outcome]++
        if ((count.ran + count.failed) % STATEMENTS_PER_DATABASE === 0) {
          database.close()
          await setImmediate()
          database = freshTenantDatabase()
        }
      }
    } finally {
      database.close()
      console.info(`sql-policy effects: ${JSON.stringify(count)}`)
    }
  })
})

describe('agreement with SQLite on what a text is', () => {
  /** Each leaves a mark that shows whether SQLite took the text for this statement. */
  const MARKED: {
    verb: StatementVerb
    sql: string
    isDone(database: Database.Database): boolean
    undo: string
  }[] = [
    {
      verb: 'ATTACH',
      sql: "ATTACH ':memory:' AS mark",
      isDone: (db) => hasMark(db),
      undo: 'DETACH mark',
    },
    { verb: 'BEGIN', sql: 'BEGIN', isDone: (db) => db.inTransaction, undo: 'ROLLBACK' },
    { verb: 'SAVEPOINT', sql: 'SAVEPOINT mark', isDone: (db) => db.inTransaction, undo: 'RELEASE mark' },
    { verb: 'PRAGMA', sql: 'PRAGMA cache_size=4321', isDone: hasCacheSize, undo: 'PRAGMA cache_size=1' },
    {
      verb: 'EXPLAIN',
      sql: 'EXPLAIN PRAGMA cache_size=4321',
      isDone: hasCacheSize,
      undo: 'PRAGMA cache_size=1',
    },
    { verb: 'CREATE', sql: 'CREATE TEMP TABLE mark(a)', isDone: hasTempTable, undo: 'DROP TABLE temp.mark' },
    { verb: 'INSERT', sql: 'INSERT INTO plain VALUES (1)', isDone: hasRow, undo: 'DELETE FROM plain' },
    {
      verb: 'INSERT',
      sql: 'WITH x AS (SELECT 1) INSERT INTO plain SELECT * FROM x',
      isDone: hasRow,
      undo: 'DELETE FROM plain',
    },
  ]
  const SOUP = [
    ' ',
    '\t',
    '\n',
    '\f',
    '\r',
    ' ',
    '\n',
    ' ',
    '\v',
    '\uFEFF',
    ';',
    '; ',
    '--',
    '/*',
    '*/',
    '/**/',
    '--\n',
    '--x\n',
    '/*x*/',
    '/*/ */',
    '\u00A0',
    '\0',
    "'",
    '"',
    '[',
    '`',
    'a',
    '0',
    '_',
    '.',
    '(',
    '/',
    '-',
    '*',
    'SELECT 1',
    'WITH ',
  ]

  function hasMark(database: Database.Database): boolean {
    return (database.pragma('database_list') as { name: string }[]).some(({ name }) => name === 'mark')
  }
  function hasCacheSize(database: Database.Database): boolean {
    return database.pragma('cache_size', { simple: true }) === 4321
  }
  function hasTempTable(database: Database.Database): boolean {
    return database.prepare('SELECT 1 FROM sqlite_temp_schema').get() !== undefined
  }
  function hasRow(database: Database.Database): boolean {
    return database.prepare('SELECT 1 FROM plain').get() !== undefined
  }

  function freshDatabase(): Database.Database {
    const database = new Database(':memory:')
    database.exec('CREATE TABLE plain(a)')
    return database
  }

  test('what SQLite carries out is what the first word was taken for', async () => {
    const random = seededRandom()
    let database = freshDatabase()
    let done = 0
    for (let round = STATEMENTS; round > 0; round--) {
      if (round % STATEMENTS_PER_DATABASE === 0) {
        database.close()
        await setImmediate()
        database = freshDatabase()
      }
      const { verb, sql, isDone, undo } = random.pick(MARKED)
      let text = sql
      for (let pieces = random.below(6); pieces > 0; pieces--) text = random.pick(SOUP) + text
      try {
        const statement = database.prepare(text)
        if (statement.reader) statement.all()
        else statement.run()
      } catch {
        // Not a statement; a PRAGMA may have acted all the same.
      }
      if (!isDone(database)) continue
      done++
      database.exec(undo)
      const { head } = new SqlStatement(text)
      expect(head.explain ? 'EXPLAIN' : head.verb, JSON.stringify(text)).toBe(verb)
      expect(isAllowed(text), JSON.stringify(text)).toBe(verb === 'INSERT')
    }
    console.info(`sql-policy first words: ${done} carried out`)
    expect(done).toBeGreaterThan(STATEMENTS / 20)
  })
})
