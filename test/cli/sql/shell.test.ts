import fs from 'node:fs'
import path from 'node:path'
import { PassThrough } from 'node:stream'
import { beforeEach, describe, expect, onTestFinished, test } from 'vitest'
import { systemClock } from '../../../src/base/clock.ts'
import { type OwnerClient, ownerClient } from '../../../src/cli/owner/owner-client.ts'
import { storeTransport } from '../../../src/cli/owner/store-transport.ts'
import { History } from '../../../src/cli/sql/history.ts'
import { runShell } from '../../../src/cli/sql/shell.ts'
import type { StoreClient } from '../../../src/cli/store-client.ts'
import { temporaryStore } from '../../../src/testing/index.ts'
import { tempDirectory } from '../../support/temp-directory.ts'
import { until } from '../../support/until.ts'

let client: OwnerClient
let cell: string

beforeEach(async () => {
  const { store, close } = await temporaryStore()
  onTestFinished(() => close())
  client = ownerClient(storeTransport(store), systemClock)
  cell = store.createCell().id
})

/** A person's session: what they see. */
class Session {
  readonly input = new PassThrough()
  readonly #shown: Record<'terminal' | 'output' | 'errors', string> = { terminal: '', output: '', errors: '' }
  readonly ended: Promise<void>

  constructor(of: Pick<StoreClient, 'sql' | 'batch'> = client, history = new History(undefined)) {
    const stream = (name: 'terminal' | 'output' | 'errors') => {
      const into = new PassThrough({ encoding: 'utf8' })
      into.on('data', (text: string) => {
        this.#shown[name] += text
      })
      // As a terminal: readline then edits lines, and hears Ctrl-C.
      return Object.assign(into, name === 'terminal' ? { isTTY: true, columns: 200 } : {})
    }
    this.ended = runShell({
      client: of,
      cell,
      format: 'table',
      history,
      greeting: 'hello',
      input: this.input,
      terminal: stream('terminal'),
      output: stream('output'),
      errors: stream('errors'),
    })
  }

  get terminal(): string {
    return this.#shown.terminal
  }

  get output(): string {
    return this.#shown.output
  }

  get errors(): string {
    return this.#shown.errors
  }

  type(text: string): void {
    this.input.write(text)
  }

  /** Types lines, and Ctrl-D. @returns what was printed */
  async play(...lines: string[]): Promise<string> {
    this.type(lines.map((line) => `${line}\n`).join(''))
    this.type('\u0004')
    await this.ended
    return this.output
  }
}

describe('the shell', () => {
  test('runs a statement once its semicolon has come, over several lines and several in one', async () => {
    const printed = await new Session().play(
      'CREATE TABLE t (a, b);',
      'INSERT INTO t',
      "  VALUES (1, 'one;'),",
      "  (2, NULL); -- it's done;",
      'SELECT a, b FROM t; SELECT count(*) AS n FROM t;',
    )
    expect(printed.replace(/[\d.]+ ms/g, '…')).toBe(
      '0 rows changed, …\n2 rows changed, …\na  b\n1  one;\n2  NULL\n2 rows, …\nn\n2\n1 row, …\n',
    )
  })

  test('takes a trigger whole', async () => {
    const printed = await new Session().play(
      'CREATE TABLE t (a);',
      'CREATE TRIGGER g AFTER INSERT ON t BEGIN',
      '  UPDATE t SET a = a + 1;',
      'END;',
      'INSERT INTO t VALUES (1);',
      'SELECT a FROM t;',
    )
    expect(printed).toContain('a\n2\n1 row')
  })

  test('writes out what a terminal would obey in an error: it can be text of a tenant', async () => {
    const session = new Session()
    const trigger = "CREATE TRIGGER no BEFORE INSERT ON t BEGIN SELECT RAISE(ABORT, char(27) || '[2J'); END;"
    await session.play('CREATE TABLE t (a);', trigger, 'INSERT INTO t VALUES (1);')
    expect(session.errors).toBe('Error: \\x1b[2J\n')
  })

  test('says what is wrong, and goes on', async () => {
    const session = new Session()
    expect(await session.play('SELEC 1;', '.tabels', 'BEGIN;', 'SELECT 7 AS n;')).toContain('n\n7\n')
    const [syntax, command, transaction] = session.errors.split('\n')
    expect(syntax).toMatch(/^Error: .*SELECT/)
    expect(command).toBe('Error: There is no command .tabels. Did you mean .tables?')
    expect(transaction).toMatch(/^Error: The shell has no transactions.*\.read it\.$/)
  })

  test('lists tables and schemas without those of the engine', async () => {
    await client.sql({ cell, sql: 'CREATE TABLE Users (id INTEGER PRIMARY KEY AUTOINCREMENT,\n  name TEXT)' })
    await client.sql({ cell, sql: 'CREATE INDEX by_name ON users (name)' })
    await client.sql({ cell, sql: 'CREATE VIEW v AS SELECT 1 AS one' })
    await client.sql({ cell, sql: 'INSERT INTO users (name) VALUES (1)' })
    expect(await new Session().play('.tables')).toBe('Users\nv\n')
    const table = 'CREATE TABLE Users (id INTEGER PRIMARY KEY AUTOINCREMENT,\n  name TEXT);\n'
    const index = 'CREATE INDEX by_name ON users (name);\n'
    const view = 'CREATE VIEW v AS SELECT 1 AS one;\n'
    expect(await new Session().play('.schema')).toBe(table + index + view)
    expect(await new Session().play('.schema users')).toBe(table + index)
    const session = new Session()
    await session.play('.schema user')
    expect(session.errors).toBe('Error: There is no table user.\n')
  })

  test('prints in the mode that was chosen', async () => {
    const printed = await new Session().play(
      '.mode csv',
      '.mode',
      "SELECT 'x,y' AS a;",
      '.mode json',
      'SELECT 1 AS a;',
    )
    expect(printed).toMatch(/^csv\na\n"x,y"\n\{"columns":\["a"\],"rows":\[\{"a":1\}\],.*\}\n$/)
  })

  test('reads a file, up to its first error, with its transactions', async () => {
    const file = path.join(tempDirectory(), 'my script.sql')
    fs.writeFileSync(
      file,
      'BEGIN;\nCREATE TABLE t (a);\nINSERT INTO t VALUES (1);\nCOMMIT;\nSELECT * FROM u;\nDROP TABLE t;',
    )
    const session = new Session()
    await session.play(`.read "${file}"`, '.tables', '.read', `.read ${file}.missing`, '.read -')
    expect(session.output).toMatch(/\nt\n$/)
    const [inFile, without, missing, standard] = session.errors.split('\n')
    expect(inFile).toBe(`Error: ${file}: Statement 5, at line 5: no such table: u`)
    expect(without).toBe('Error: .read takes a <file>.')
    expect(missing).toMatch(/^Error: There is no file .*missing/)
    expect(standard).toMatch(/Name a file/)
  })

  test('lists its commands', async () => {
    const printed = await new Session().play('.help')
    for (const name of ['.help', '.mode', '.quit', '.read <file>', '.schema [table]', '.tables'])
      expect(printed).toContain(`\n${name} `)
  })

  test('is left by .quit, and takes nothing after it', async () => {
    const session = new Session()
    session.type('SELECT 1 AS a;\n.quit\nSELECT 2 AS b;\n')
    await session.ended
    expect(session.output).toContain('a\n1\n')
    expect(session.output).not.toContain('b\n2\n')
  })

  test('Ctrl-C drops what was typed, on this line and on those before it', async () => {
    const session = new Session()
    session.type('SELECT 1\n')
    await until(() => session.terminal.includes('...> '), 'the statement goes on')
    session.type('+ 1')
    session.type('\u0003')
    await until(() => session.terminal.includes('^C'), 'Ctrl-C was heard')
    expect(await session.play('SELECT 5 AS n;')).toMatch(/^n\n5\n1 row.*\n$/)
    expect(session.errors).toBe('')
  })

  test('Ctrl-C gives up a statement that runs, and drops the lines after it', async () => {
    let asked = 0
    const slow: Pick<StoreClient, 'sql' | 'batch'> = {
      sql: (_, { signal } = {}) => {
        asked++
        return new Promise((_, reject) => signal?.addEventListener('abort', () => reject(signal.reason)))
      },
      batch: () => Promise.reject(new Error('not asked')),
    }
    const session = new Session(slow)
    session.type('SELECT 1;\nSELECT 2;\n')
    await until(() => asked === 1, 'the statement runs')
    session.type('\u0003')
    await until(() => session.errors !== '', 'it was given up')
    expect(session.errors).toBe('Error: Interrupted. The statement may have run or not.\n')
    await session.play()
    expect(asked).toBe(1)
  })

  test('keeps its lines for the next one', async () => {
    const file = path.join(tempDirectory(), 'history')
    await new Session(client, new History(file)).play('SELECT 1', 'AS n;', '', '.tables')
    expect(fs.readFileSync(file, 'utf8')).toBe('SELECT 1\nAS n;\n.tables\n')
    const session = new Session(client, new History(file))
    // The arrow up, three times.
    session.type('\u001b[A\u001b[A\u001b[A')
    expect(await session.play(' AS m;')).toMatch(/^m\n1/)
  })

  test('moves no cursor for what a tenant stored', async () => {
    await client.sql({ cell, sql: 'CREATE TABLE t (a TEXT)' })
    await client.sql({ cell, sql: 'INSERT INTO t VALUES (?)', params: ['\u001b[2J'] })
    expect(await new Session().play('SELECT a FROM t;')).toContain('\\x1b[2J')
  })
})
