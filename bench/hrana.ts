import { spawn } from 'node:child_process'
import fs from 'node:fs'
import os from 'node:os'
import path from 'node:path'
import { createClient, type Client as LibsqlClient } from '@libsql/client'
import { Client, cpuMs, startBaseline, startCellstore } from './http-process.ts'
import { HEAD, report, sideBySide } from './side-by-side.ts'

/**
 * Hrana: what `@libsql/client` sends for a select next to our own SQL route; and, where the path of a libsql-server is in `SQLD`, that next to it, as are
 * transactions of three statements with the client itself, and those of a bare server (`hrana-baseline.ts`). Of the selects, several are under way at a time.
 * libsql-server does not sync its commits; the others do.
 */
const AT_ONCE = 16
const ROUNDS = Number(process.env['CELLSTORE_BENCH_ROUNDS'] ?? 5)
const ROUND_MS = Number(process.env['CELLSTORE_BENCH_ROUND_MS'] ?? 2_000)
/** In its first seconds V8 makes any server faster by half. */
const WARM_UP_ROUNDS = 3
const ROWS = 1_000
const SELECT = 'SELECT id, name FROM users WHERE id = ?'

const directory = fs.mkdtempSync(path.join(os.tmpdir(), 'cellstore-bench-hrana-'))
const server = await startCellstore(path.join(directory, 'cellstore'), [])
const address = `http://127.0.0.1:${server.port}/v1/databases`
const headers = { 'x-api-key': server.key, 'content-type': 'application/json' }

async function newCell(): Promise<string> {
  const response = await fetch(address, { method: 'POST', headers, body: '{}' })
  return ((await response.json()) as { id: string }).id
}

async function filled(client: LibsqlClient): Promise<LibsqlClient> {
  await client.execute('CREATE TABLE users (id INTEGER PRIMARY KEY, name TEXT)')
  const rows = Array.from({ length: ROWS }, (_, id) => ({
    sql: 'INSERT INTO users VALUES (?, ?)',
    args: [id, `user ${id}`],
  }))
  await client.batch(rows, 'write')
  return client
}

const load = new Client()
const BODY = JSON.stringify({
  requests: [
    { type: 'execute', stmt: { sql: SELECT, args: [{ type: 'integer', value: '7' }], want_rows: true } },
    { type: 'close' },
  ],
})

/** A second, of what `@libsql/client` sends for `execute`, or of another body. */
async function selects(port: number, place: string, body = BODY): Promise<number> {
  const lines = `x-api-key: ${server.key}\r\n`
  const request = { port, method: 'POST' as const, paths: [place], headers: lines, body }
  return (await load.run({ ...request, connections: AT_ONCE, durationMs: ROUND_MS })).rate
}

/** Selects for each second of the server's processor time: the client takes most of its own. */
const selectsOfServer = (client: LibsqlClient, pid: number) => async () => {
  const [started, before] = [performance.now(), cpuMs(pid)]
  let asked = 0
  const one = async () => {
    while (performance.now() - started < ROUND_MS)
      await client.execute({ sql: SELECT, args: [asked++ % ROWS] })
  }
  await Promise.all(Array.from({ length: AT_ONCE }, one))
  return (asked * 1_000) / (cpuMs(pid) - before)
}

/** One after the other: they would wait for each other. */
async function transact(client: LibsqlClient): Promise<number> {
  const started = performance.now()
  let done = 0
  while (performance.now() - started < ROUND_MS) {
    const transaction = await client.transaction('write')
    await transaction.execute({ sql: SELECT, args: [done % ROWS] })
    await transaction.execute({
      sql: 'UPDATE users SET name = ? WHERE id = ?',
      args: [`${done}`, done % ROWS],
    })
    await transaction.execute({ sql: SELECT, args: [done % ROWS] })
    await transaction.commit()
    done++
  }
  return done
}

const transactions = (client: LibsqlClient) => async () => {
  const started = performance.now()
  const done = await transact(client)
  return (done * 1_000) / (performance.now() - started)
}

/** For each second of the server's processor time. */
const transactionsOfServer = (client: LibsqlClient, pid: number) => async () => {
  const before = cpuMs(pid)
  const done = await transact(client)
  return (done * 1_000) / (cpuMs(pid) - before)
}

async function compare(
  what: string,
  aim: number | undefined,
  contenders: { ours: () => Promise<number>; theirs: () => Promise<number> },
  of: string,
): Promise<void> {
  for (let round = 0; round < WARM_UP_ROUNDS; round++)
    for (const run of Object.values(contenders)) await run()
  const { ours, theirs } = await sideBySide(ROUNDS, contenders)
  const ratio = ours / theirs
  const shown = (each: number) => `${Math.round(each)}/s`
  report({
    what,
    ours: shown(ours),
    theirs: shown(theirs),
    ratio,
    aim: aim === undefined ? of : `≥ ${aim} × ${of}`,
    met: aim === undefined ? undefined : ratio >= aim,
  })
}

try {
  console.log(HEAD)
  const id = await newCell()
  const hrana = (cell: string) => createClient({ url: `${address}/${cell}/`, authToken: server.key })
  const client = await filled(hrana(id))
  const place = `/v1/databases/${id}`
  const ours = () => selects(server.port, `${place}/v2/pipeline`)
  const json = JSON.stringify({ sql: SELECT, params: [7] })
  await compare(
    'select',
    0.9,
    { theirs: () => selects(server.port, `${place}/sql`, json), ours },
    'our SQL route',
  )
  const program = process.env['SQLD']
  if (program !== undefined) {
    const port = server.port + 1
    const args = ['--db-path', path.join(directory, 'sqld'), '--http-listen-addr', `127.0.0.1:${port}`]
    const bare = await startBaseline(path.join(directory, 'bare'), { program: 'hrana-baseline.ts' })
    const bareClient = await filled(createClient({ url: `http://127.0.0.1:${bare.port}` }))
    const sqld = spawn(program, args, { stdio: 'ignore' })
    try {
      const url = `http://127.0.0.1:${port}`
      const theirs = createClient({ url })
      for (let tries = 0; ; tries++) {
        if (await theirs.execute('SELECT 1').then(Boolean, () => false)) break
        if (tries > 100) throw new Error('libsql-server does not answer.')
        await new Promise((resolve) => setTimeout(resolve, 100))
      }
      await filled(theirs)
      const pid = sqld.pid as number
      await compare(
        'selects a second of processor time',
        4,
        { theirs: selectsOfServer(theirs, pid), ours: selectsOfServer(client, server.pid) },
        'libsql-server',
      )
      const what = 'transaction of three statements'
      const rates = { theirs: transactions(theirs), ours: transactions(client) }
      await compare(what, 2, rates, 'libsql-server')
      const costs = {
        theirs: transactionsOfServer(theirs, pid),
        ours: transactionsOfServer(client, server.pid),
      }
      await compare('the same, a second of processor time', undefined, costs, 'libsql-server')
      const limit = { theirs: transactions(theirs), ours: transactions(bareClient) }
      await compare('the same of a bare server', undefined, limit, 'libsql-server: a limit')
    } finally {
      sqld.kill()
      await bare.stop()
    }
  }
  client.close()
} finally {
  load.stop()
  await server.stop()
  fs.rmSync(directory, { recursive: true, force: true })
}
