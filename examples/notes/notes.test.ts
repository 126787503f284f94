import assert from 'node:assert/strict'
import { Readable } from 'node:stream'
import { test } from 'node:test'
import { SteppedClock, temporaryStore } from 'cellstore/testing'
import { notesApp } from './notes-app.ts'

/** A browser with one cookie. */
function browser(app: ReturnType<typeof notesApp>) {
  let cookie = ''
  return async (method: string, path: string, body?: unknown): Promise<Response> => {
    const response = await app.request(path, {
      method,
      headers: { cookie },
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
    })
    cookie = response.headers.get('set-cookie')?.split(';')[0] ?? cookie
    return response
  }
}
const ANN = { email: 'ann@example.com', password: 'correct horse' }

test('each tenant has users and notes of its own', async () => {
  await using temporary = await temporaryStore()
  const app = notesApp(temporary.store)
  const [ann, bob] = [browser(app), browser(app)]
  assert.equal((await ann('POST', '/acme', ANN)).status, 201)
  assert.equal((await bob('POST', '/globex', ANN)).status, 201)
  assert.equal((await bob('POST', '/globex', ANN)).status, 409)
  await ann('POST', '/acme/notes', { text: 'call the dentist' })
  assert.deepEqual(await (await ann('GET', '/acme/notes?q=dentist')).json(), [
    { id: 1, text: 'call the dentist' },
  ])
  assert.equal((await ann('GET', '/acme/notes?q=%22')).status, 200)
  assert.deepEqual(await (await bob('GET', '/globex/notes?q=dentist')).json(), [])
  assert.equal((await ann('GET', '/globex/notes?q=dentist')).status, 401)
  assert.equal((await ann('GET', '/nobody/notes?q=dentist')).status, 404)
})

test('a session ends half an hour after its last use, and wrong passwords are counted', async () => {
  const clock = new SteppedClock()
  await using temporary = await temporaryStore({ clock })
  const ann = browser(notesApp(temporary.store))
  await ann('POST', '/acme', ANN)
  clock.advance(1_799_000)
  assert.equal((await ann('GET', '/acme/notes?q=x')).status, 200)
  clock.advance(1_800_000)
  assert.equal((await ann('GET', '/acme/notes?q=x')).status, 401)
  for (let tries = 0; tries < 5; tries++)
    assert.equal((await ann('POST', '/acme/session', { ...ANN, password: '?' })).status, 401)
  assert.equal((await ann('POST', '/acme/session', ANN)).status, 429)
  clock.advance(300_000)
  assert.equal((await ann('POST', '/acme/session', ANN)).status, 204)
})

test('a download can be imported, and a tenant restored from its backup', async () => {
  await using temporary = await temporaryStore()
  const { store } = temporary
  const ann = browser(notesApp(store))
  await ann('POST', '/acme', ANN)
  await ann('POST', '/acme/notes', { text: 'call the dentist' })
  const file = await (await ann('GET', '/acme/export')).bytes()
  await store.importCell(Readable.from([file]), { name: 'acme-copy' })
  assert.deepEqual(await (await browser(notesApp(store))('POST', '/acme-copy/session', ANN)).status, 204)
  assert.equal(store.cell('acme-copy').get('SELECT count(*) AS n FROM notes')?.['n'], 1)

  await store.backups.snapshot(store.cell('acme').id)
  store.cell('acme').sql('DELETE FROM notes')
  await store.backups.restore(store.cell('acme').id)
  assert.equal(((await (await ann('GET', '/acme/notes?q=call')).json()) as unknown[]).length, 1)
})
