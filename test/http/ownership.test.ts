import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { ROUTES } from '../../src/http/routes/routes.ts'
import { type Ask, Bench, type Reply } from '../support/http/bench.ts'
import { TRANSPORTS_AND_NODES } from '../support/http/transports.ts'
import { checkEveryReply, checkProblem, saidBy, UNKNOWN_ID } from './rows/row.ts'

const ofCells = ROUTES.filter(([, path]) => path.includes('{id}')).map(([method, path, { takesBody }]) => ({
  route: `${method} ${path}`,
  takesBody,
  /** Backups outlive their cell. */
  keepsDeleted: /\/(backups|restore|restores\/\{restore_id\}|retention|(un)?pin)$/.test(path),
  ask: (id: string): Ask => ({
    method,
    path: path.replace('{id}', id).replace('{key}', 'k'),
    ...(takesBody ? { body: {} } : {}),
  }),
}))

const OTHERS: [what: string, id: string][] = [
  ['an unknown id', UNKNOWN_ID],
  ['a stranger’s cell', '{stranger}'],
  ['a cell without an account', '{nobody}'],
  ['the catalog', '{catalog}'],
  ['no id at all', 'x'],
  ['an empty id', ''],
  ['an id in capitals', UNKNOWN_ID.toUpperCase()],
  ['an id with more behind it', `${UNKNOWN_ID}%2F..`],
  ['an encoded id', '%33f6c2a52-7c5e-4b0a-9f39-1c1f5a0b7e11'],
  ['a NUL', '%00'],
]

describe.each(TRANSPORTS_AND_NODES)('through %s', (_name, transport) => {
  let bench: Bench
  beforeAll(async () => {
    bench = await Bench.open(transport)
  })
  afterAll(() => bench.close())

  async function send(ask: Ask): Promise<Reply> {
    const reply = await bench.send(ask)
    checkEveryReply(reply, bench, ask)
    return reply
  }

  describe.each(ofCells)('$route', ({ ask, keepsDeleted }) => {
    const absent = keepsDeleted ? OTHERS : [...OTHERS, ['a deleted cell', '{deleted}'] as [string, string]]

    test.each(absent)('%s is answered 404, always in the same words', async (_what, id) => {
      const reply = await send(ask(id))
      checkProblem(reply, 404, { code: 'cell_not_found' })
      expect(saidBy(reply)).toBe('There is no such cell.')
    })

    test('another account’s key does not open the cell', async () => {
      const reply = await send({ ...ask('{cell}'), key: bench.strangerKeyFor(ask('{cell}').path) })
      checkProblem(reply, 404, { code: 'cell_not_found' })
      expect(saidBy(reply)).toBe('There is no such cell.')
    })
  })

  test.each(ofCells.filter(({ keepsDeleted }) => keepsDeleted))(
    '$route: a deleted cell is there for its account, and for no other',
    async ({ ask }) => {
      expect((await send(ask('{deleted}'))).json).not.toMatchObject({ code: 'cell_not_found' })
      const reply = await send({ ...ask('{deleted}'), key: bench.strangerKeyFor(ask('{cell}').path) })
      checkProblem(reply, 404, { code: 'cell_not_found' })
    },
  )

  test.each(ofCells.filter(({ takesBody }) => takesBody))(
    '$route: whose the cell is comes before what its fields are, and, where its worker reads them, what JSON is',
    async ({ ask, route }) => {
      const wrong = { ...ask('{stranger}'), raw: '{"sql":5,"version":5,"keys":5}' }
      checkProblem(await send(wrong), 404, { code: 'cell_not_found' })
      const isPassedOn = /\/(kv|sql|batch|pipeline|cursor)\b/.test(route)
      const expected = isPassedOn ? ([404, 'cell_not_found'] as const) : ([400, 'invalid_json'] as const)
      checkProblem(await send({ ...wrong, raw: '{' }), expected[0], { code: expected[1] })
    },
  )
})
