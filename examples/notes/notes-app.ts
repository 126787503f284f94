// Notes for many tenants: a cell for each, with sessions and a rate limit in its KV entries and notes in its tables.
import { randomBytes, scrypt, timingSafeEqual } from 'node:crypto'
import { PassThrough, Readable } from 'node:stream'
import { promisify } from 'node:util'
import { type Cell, type CellStore, isCellError, type Migration } from 'cellstore'
import { type Context, Hono } from 'hono'
import { deleteCookie, getCookie, setCookie } from 'hono/cookie'
import { HTTPException } from 'hono/http-exception'

const MIGRATIONS: Migration[] = [
  `CREATE TABLE users (id INTEGER PRIMARY KEY, email TEXT NOT NULL UNIQUE, password BLOB NOT NULL, salt BLOB NOT NULL);
   CREATE TABLE notes (id INTEGER PRIMARY KEY, user_id INTEGER NOT NULL REFERENCES users, text TEXT NOT NULL)`,
  `CREATE VIRTUAL TABLE note_words USING fts5(text, content='notes', content_rowid='id');
   CREATE TRIGGER note_added AFTER INSERT ON notes BEGIN
     INSERT INTO note_words (rowid, text) VALUES (new.id, new.text);
   END;
   INSERT INTO note_words (note_words) VALUES ('rebuild')`,
]
const SESSION = { ttlSeconds: 1_800 }
const hash = promisify<string, Uint8Array, number, Buffer>(scrypt)

export function notesApp(store: CellStore): Hono {
  const app = new Hono()

  function tenant(c: Context): Cell {
    const found = store.findCellByName(c.req.param('tenant') ?? '')
    if (found === undefined) throw new HTTPException(404) // store.cell() would make one, for any path
    const cell = store.openCell(found.id)
    cell.migrate(MIGRATIONS)
    return cell
  }

  function user(c: Context, { kv }: Cell): number {
    const key = `session/${getCookie(c, 'session')}`
    const session = kv.getJson<{ user: number }>(key)
    if (session === undefined) throw new HTTPException(401, { message: 'sign in first' })
    kv.expire(key, SESSION.ttlSeconds)
    if (kv.incr(`calls/${session.user}`, 1, { ttlSeconds: 60 }) > 100) throw new HTTPException(429)
    return session.user
  }

  function begin(c: Context, { kv }: Cell, id: number): void {
    const token = randomBytes(32).toString('base64url')
    kv.putJson(`session/${token}`, { user: id }, SESSION)
    setCookie(c, 'session', token, { httpOnly: true, sameSite: 'Strict', path: `/${c.req.param('tenant')}` })
  }

  app.post('/:tenant', async (c) => {
    const { email, password } = await credentials(c)
    const salt = randomBytes(16)
    const row = [email, await hash(password, salt, 32), salt]
    const cell = store.createCell({ name: c.req.param('tenant') })
    cell.migrate(MIGRATIONS)
    const { lastInsertRowid } = cell.sql('INSERT INTO users (email, password, salt) VALUES (?, ?, ?)', row)
    begin(c, cell, Number(lastInsertRowid))
    return c.json({ email }, 201)
  })

  app.post('/:tenant/session', async (c) => {
    const cell = tenant(c)
    const { email, password } = await credentials(c)
    if (cell.kv.incr(`tries/${email}`, 1, { ttlSeconds: 300 }) > 5) throw new HTTPException(429)
    const found = cell
      .prepare<{ id: number; password: Uint8Array; salt: Uint8Array }>('SELECT * FROM users WHERE email = ?')
      .get(email)
    const given = await hash(password, found?.salt ?? randomBytes(16), 32)
    if (found === undefined || !timingSafeEqual(given, found.password)) throw new HTTPException(401)
    begin(c, cell, found.id)
    return c.body(null, 204)
  })

  app.delete('/:tenant/session', (c) => {
    tenant(c).kv.delete(`session/${deleteCookie(c, 'session')}`)
    return c.body(null, 204)
  })

  app.post('/:tenant/notes', async (c) => {
    const cell = tenant(c)
    const author = user(c, cell)
    const { text } = await c.req.json<{ text: string }>()
    const { lastInsertRowid: id } = cell.sql('INSERT INTO notes (user_id, text) VALUES (?, ?)', [
      author,
      text,
    ])
    return c.json({ id }, 201)
  })

  app.get('/:tenant/notes', (c) => {
    const cell = tenant(c)
    user(c, cell)
    const found = cell.prepare(
      `SELECT notes.id, notes.text FROM note_words JOIN notes ON notes.id = note_words.rowid
       WHERE note_words MATCH ? ORDER BY rank LIMIT 20`,
    )
    const words = (c.req.query('q') ?? '').replaceAll('"', '""')
    return c.json(found.all(`"${words}"`)) // a phrase: FTS5 has a query language of its own
  })

  app.get('/:tenant/export', (c) => {
    const cell = tenant(c)
    user(c, cell)
    const file = new PassThrough()
    cell.export(file).catch((error: Error) => file.destroy(error))
    c.header('content-type', 'application/vnd.sqlite3')
    return c.body(Readable.toWeb(file) as ReadableStream<Uint8Array>)
  })

  app.onError((error, c) => {
    if (error instanceof HTTPException) return error.getResponse()
    if (isCellError(error, 'name_taken')) return c.text('this tenant exists already', 409)
    console.error(error)
    return c.text('something went wrong', 500)
  })
  return app
}

async function credentials(c: Context): Promise<{ email: string; password: string }> {
  const { email, password } = await c.req.json<Record<string, unknown>>()
  if (typeof email === 'string' && typeof password === 'string') return { email, password }
  throw new HTTPException(400, { message: 'email and password, please' })
}
