import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import fs from 'node:fs'
import path from 'node:path'
import { describe, expect, onTestFinished, test } from 'vitest'
import { ENTRY, Workplace } from '../support/cli/workplace.ts'
import { shellEnv } from '../support/package/run.ts'
import { until } from '../support/until.ts'

/** Runs a command on a terminal of its own (util-linux). */
const SCRIPT = '/usr/bin/script'

/** A running node with a cell. */
async function withCell(): Promise<{ place: Workplace; cell: string }> {
  const place = new Workplace()
  await place.serve()
  return { place, cell: await place.text('cells', 'create') }
}

describe('sql', () => {
  test('binds numbers as numbers, and as text if it is told to', async () => {
    const { place, cell } = await withCell()
    const types = 'SELECT typeof(?) AS a, typeof(?) AS b, typeof(?) AS c, typeof(?) AS d'
    const words = ['42', '-1.5', 'null', '007']
    expect(await place.json('sql', cell, types, ...words)).toMatchObject({
      rows: [{ a: 'integer', b: 'real', c: 'null', d: 'text' }],
    })
    expect(await place.json('sql', cell, types, '--text', ...words)).toMatchObject({
      rows: [{ a: 'text', b: 'text', c: 'text', d: 'text' }],
    })
    expect(await place.text('sql', cell, 'SELECT ? + 1 AS n, ? AS t', '41.5', 'x', '--csv')).toBe(
      'n,t\n42.5,x',
    )
    expect(await place.failure('sql', cell, 'SELECT ?', '--text', '--json-params', '[1]')).toMatchObject({
      exit: 2,
    })
  })

  test('reads a script from standard input, stops at its first error, names it, and keeps what ran before', async () => {
    const { place, cell } = await withCell()
    const input = [
      'CREATE TABLE t (a UNIQUE); -- one',
      "INSERT INTO t VALUES ('x;');",
      '',
      "INSERT INTO t VALUES ('x;');",
      'DROP TABLE t;',
    ].join('\n')
    const failed = await place.runWith({ input }, 'sql', cell)
    expect(failed).toMatchObject({
      code: 1,
      stdout: expect.stringMatching(/^0 rows changed, .*\n1 row changed, .*\n$/),
      stderr: 'cellstore: Statement 3, at line 4: UNIQUE constraint failed: t.a\n',
    })
    expect(await place.text('sql', cell, 'SELECT a FROM t', '--csv')).toBe('a\nx;')

    const asJson = await place.runWith({ input: 'SELECT 1 AS n; SELECT m' }, 'sql', cell, '--json')
    expect(asJson).toMatchObject({ code: 1, stdout: '' })
    expect(JSON.parse(asJson.stderr)).toEqual({
      code: 'sql_error',
      message: 'Statement 2, at line 1: no such column: m',
    })
  })

  test('runs what stands between BEGIN and COMMIT as one', async () => {
    const { place, cell } = await withCell()
    const input = 'CREATE TABLE t (a);\nBEGIN;\nINSERT INTO t VALUES (1);\nINSERT INTO u VALUES (2);\nCOMMIT;'
    const failed = await place.runWith({ input }, 'sql', cell, '-')
    expect(failed).toMatchObject({
      code: 1,
      stderr: 'cellstore: Statement 4, at line 4: no such table: u Nothing of its transaction was kept.\n',
    })
    const rest = 'BEGIN; INSERT INTO t VALUES (3); SELECT a FROM t; COMMIT; SELECT count(*) AS n FROM t;'
    const done = await place.runWith({ input: rest }, 'sql', cell, '--json')
    expect(JSON.parse(done.stdout)).toMatchObject({
      results: [{ changes: 1 }, { rows: [{ a: 3 }] }, { rows: [{ n: 1 }] }],
    })
    const open = await place.runWith({ input: 'DROP TABLE t;\nBEGIN; SELECT 1;' }, 'sql', cell)
    expect(open).toMatchObject({
      code: 1,
      stderr: expect.stringMatching(/has no COMMIT. Nothing was run\.\n$/),
    })
    expect(await place.text('sql', cell, 'SELECT count(*) AS n FROM t', '--csv')).toBe('n\n1')
  })

  test('reads files, one after the other, and names the one with the error', async () => {
    const { place, cell } = await withCell()
    const file = (name: string, text: string | Buffer) =>
      fs.writeFileSync(path.join(place.folder, name), text)
    file('schema.sql', '\ufeffCREATE TABLE t (a, b);')
    file('data.sql', "INSERT INTO t VALUES (1, ''), (2, NULL);\nSELECT a FROM t;\nSELECT b FROM t;")
    const files = ['--file', 'schema.sql', '--file', 'data.sql']
    expect(await place.run('sql', cell, ...files, '--csv')).toMatchObject({
      code: 0,
      stdout: 'a\n1\n2\n\nb\n""\n\n',
    })
    file('bad.sql', 'DELETE FROM t;\n\n\nSELEC;')
    const failed = await place.run('sql', cell, '--file', 'data.sql', '--file', 'bad.sql')
    expect(failed).toMatchObject({
      code: 1,
      stderr: expect.stringMatching(/^cellstore: bad\.sql: Statement 2, at line 4: /),
    })
    expect(await place.text('sql', cell, 'SELECT count(*) AS n FROM t', '--csv')).toBe('n\n0')
    file('latin.sql', Buffer.from("DROP TABLE t; SELECT 'Z\xfcrich'", 'latin1'))
    expect(await place.failure('sql', cell, '--file', 'latin.sql')).toMatchObject({
      exit: 1,
      message: 'latin.sql is not UTF-8.',
    })
    expect(await place.run('sql', cell, '--file', 'data.sql', '--file', 'missing.sql')).toMatchObject({
      code: 1,
      stdout: '',
      stderr: 'cellstore: There is no file missing.sql.\n',
    })
    expect(await place.runWith({ input: '-- nothing\n' }, 'sql', cell)).toEqual({
      code: 0,
      signal: null,
      stdout: '',
      stderr: 'There was no statement.\n',
    })
    expect(await place.runWith({ input: '.tables' }, 'sql', cell)).toMatchObject({
      code: 1,
      stderr: expect.stringContaining('only in the shell'),
    })
  })
})

/** What `sqlite3 app.db .dump` of version 3.40 writes. */
const DUMP = `PRAGMA foreign_keys=OFF;
BEGIN TRANSACTION;
CREATE TABLE child (id INTEGER PRIMARY KEY AUTOINCREMENT, p REFERENCES parent);
INSERT INTO child VALUES(1,2);
INSERT INTO child VALUES(2,1);
CREATE TABLE parent (id INTEGER PRIMARY KEY, name TEXT, bytes BLOB);
INSERT INTO parent VALUES(1,'Ann; COMMIT',X'00ff');
INSERT INTO parent VALUES(2,replace('a\\nb','\\n',char(10)),NULL);
DELETE FROM sqlite_sequence;
INSERT INTO sqlite_sequence VALUES('child',2);
CREATE TRIGGER t AFTER INSERT ON child BEGIN UPDATE parent SET name = 'x' WHERE id = new.p; END;
CREATE VIEW v AS SELECT name FROM parent;
CREATE INDEX i ON child (p);
COMMIT;
`

describe('a dump of sqlite3', () => {
  const write = (place: Workplace, name: string, sql: string) =>
    fs.writeFileSync(path.join(place.folder, name), sql)

  test('is loaded, whatever the order of its tables and however many rows it has', async () => {
    const { place, cell } = await withCell()
    const many = Array.from({ length: 20_000 }, (_, i) => `INSERT INTO many VALUES(${i});\n`).join('')
    write(place, 'dump.sql', DUMP.replace('CREATE INDEX', `CREATE TABLE many (n);\n${many}CREATE INDEX`))
    expect(await place.run('sql', cell, '--file', 'dump.sql')).toMatchObject({ code: 0, stderr: '' })
    const counts =
      'SELECT (SELECT count(*) FROM child) AS c, (SELECT name FROM parent WHERE id = 2) AS name, count(*) AS n, max(n) AS last FROM many'
    expect(await place.json('sql', cell, counts)).toMatchObject({
      rows: [{ c: 2, name: 'a\nb', n: 20_000, last: 19_999 }],
    })
    await place.text('sql', cell, 'INSERT INTO child (p) VALUES (1)')
    expect(
      await place.text('sql', cell, 'SELECT child.id, name FROM child JOIN parent ON p = parent.id', '--csv'),
    ).toBe('id,name\n1,"a\nb"\n2,x\n3,x')
    expect(await place.failure('sql', cell, 'INSERT INTO child (p) VALUES (9)')).toMatchObject({
      code: 'constraint_violation',
    })
  })

  test.each([
    ['a virtual table', 'PRAGMA writable_schema=ON', 'Statement 3, at line 3: '],
    [
      'a row that a statement can not hold',
      `CREATE TABLE t (a);\nINSERT INTO t VALUES('${'x'.repeat(110_000)}')`,
      'Statement 4, at line 4: ',
    ],
    [
      'more than a batch holds',
      Array.from({ length: 1_001 }, (_, i) => `CREATE VIEW v${i} AS SELECT ${i}`).join(';\n'),
      '',
    ],
    [
      'rows without a parent',
      'CREATE TABLE p (id INTEGER PRIMARY KEY);\nCREATE TABLE c (p REFERENCES p);\nINSERT INTO c VALUES(1)',
      '',
    ],
  ])('with %s leaves nothing, and the error names the import', async (_what, sql, where) => {
    const { place, cell } = await withCell()
    write(place, 'dump.sql', `PRAGMA foreign_keys=OFF;\nBEGIN TRANSACTION;\n${sql};\nCOMMIT;`)
    const { code, stderr } = await place.run('sql', cell, '--file', 'dump.sql')
    expect([code, stderr]).toEqual([1, expect.stringContaining(`cellstore: dump.sql: ${where}`)])
    expect(stderr).toMatch(/Nothing of its transaction was kept\. .*cellstore cells import app\.db\.\n$/)
    expect(
      await place.text('sql', cell, "SELECT name FROM sqlite_schema WHERE name NOT LIKE '_cell%'", '--csv'),
    ).toBe('name')
  })

  test('is not what drops a table: the PRAGMA is refused, and nothing runs', async () => {
    const { place, cell } = await withCell()
    await place.runWith({ input: DUMP }, 'sql', cell)
    const rebuild =
      'CREATE TABLE n (id INTEGER PRIMARY KEY); DROP TABLE parent; ALTER TABLE n RENAME TO parent;'
    const input = `PRAGMA foreign_keys=OFF;\nBEGIN;\n${rebuild}\nCOMMIT;`
    expect(await place.runWith({ input }, 'sql', cell)).toMatchObject({
      code: 1,
      stderr: expect.stringMatching(/^cellstore: Statement 1, at line 1: .*PRAGMA defer_foreign_keys = ON/),
    })
    expect(await place.text('sql', cell, 'SELECT count(*) AS n FROM parent', '--csv')).toBe('n\n2')
  })
})

describe('a statement that begins with a comment', () => {
  test.each([
    ['-- how many\nSELECT 1 AS n'],
    ['--how many\nSELECT 1 AS n'],
    ['-- a = b\nSELECT 1 AS n'],
    ['/* how many */ SELECT 1 AS n'],
  ])('is no option: %j', async (sql) => {
    const { place, cell } = await withCell()
    expect(await place.text('sql', cell, sql, '--csv')).toBe('n\n1')
    expect(await place.text('sql', '--csv', cell, sql)).toBe('n\n1')
  })

  test('and a parameter that looks like one are passed on as they are', async () => {
    const { place, cell } = await withCell()
    expect(await place.text('sql', cell, '-- a\nSELECT ? AS a, ? AS b', '-- b c', '7', '--csv')).toBe(
      'a,b\n-- b c,7',
    )
    expect(await place.failure('sql', cell, 'SELECT 1', '--no-such')).toMatchObject({ exit: 2 })
    expect(await place.failure('sql', cell, 'SELECT 1', '--no=such thing')).toMatchObject({ exit: 2 })
  })
})

describe.skipIf(!fs.existsSync(SCRIPT))('sql at a terminal', () => {
  test('is a shell, with a history for its owner alone', async () => {
    const { place, cell } = await withCell()
    const history = path.join(place.folder, 'history')
    const terminal = new Terminal(place, ['sql', cell], { CELLSTORE_HISTORY: history })
    await terminal.shows(/; \.help lists commands.*\ncellstore> $/s)
    await terminal.type('CREATE TABLE t (city TEXT);\r', /0 rows changed, .*\ncellstore> $/s)
    await terminal.type("INSERT INTO t VALUES ('東京'),\r", /\.\.\.> $/)
    await terminal.type("('Bern');\r", /2 rows changed, .*\ncellstore> $/s)
    await terminal.type('SELECT city, 1 AS n FROM t;\r', /city {2}n\n東京 {2}1\nBern {2}1\n2 rows/)
    await terminal.type('.tabels\r', /Did you mean \.tables\?\n/)
    await terminal.type('DROP TABLE t\r', /\.\.\.> $/)
    await terminal.type('\u0003', /\^C\n[^\n]*cellstore> $/)
    // What ends the input counts only at a prompt.
    await terminal.type('.tables\r', /\nt\ncellstore> $/)
    expect(fs.statSync(history).mode & 0o777).toBe(0o600)
    expect(fs.readFileSync(history, 'utf8')).toContain("('Bern');\n")
    await terminal.type('\u0004', /^\n$/)
    expect(await terminal.ended).toBe(0)
  })

  test('of a cell that is not there ends before a person types', async () => {
    const { place } = await withCell()
    const terminal = new Terminal(place, ['sql', '00000000-0000-4000-8000-000000000000'], {
      CELLSTORE_HISTORY: '',
    })
    expect(await terminal.ended).toBe(1)
    expect(terminal.shown).toContain('cellstore: ')
    expect(terminal.shown).not.toContain('cellstore> ')
  })
})

/** A command on a terminal, and a person who types. */
class Terminal {
  readonly #child: ChildProcess
  #raw = ''
  readonly ended: Promise<number | null>

  constructor(place: Workplace, args: string[], env: Record<string, string>) {
    const command = [process.execPath, ENTRY, ...args].map((word) => `'${word}'`).join(' ')
    this.#child = spawn(SCRIPT, ['-qec', command, '/dev/null'], {
      cwd: place.folder,
      env: { ...shellEnv(), ...place.env, ...env, TERM: 'xterm' },
    })
    onTestFinished(() => void this.#child.kill('SIGKILL'))
    this.#child.stdout?.setEncoding('utf8').on('data', (text: string) => {
      this.#raw += text
    })
    this.ended = once(this.#child, 'exit').then(([code]) => code)
  }

  /** What a person sees, without what moves the cursor. */
  get shown(): string {
    // biome-ignore lint/suspicious/noControlCharactersInRegex: terminals obey them
    return this.#raw.replace(/\u001b\[[\d;?]*[A-Za-z]/g, '').replaceAll('\r', '')
  }

  async shows(what: RegExp, from = 0): Promise<void> {
    await until(() => what.test(this.shown.slice(from)), `the terminal shows ${what}, after:\n${this.shown}`)
  }

  /** Types, and waits for what that shows. */
  async type(text: string, what: RegExp): Promise<void> {
    const from = this.shown.length
    this.#child.stdin?.write(text)
    await this.shows(what, from)
  }
}
