import { afterAll, beforeAll, describe, test } from 'vitest'
import { Bench } from '../support/http/bench.ts'
import { viaClient } from '../support/http/client-call.ts'
import { viaFetch } from '../support/http/transports.ts'
import { AREAS } from './rows/areas.ts'
import { checkReply, type Row } from './rows/row.ts'

/** Rows with a store of their own are about the server's settings; raw bodies and unknown fields are what no client sends. */
const isCall = ({ ask, status, bench, title }: Row) =>
  status < 400 && ask.raw === undefined && bench === undefined && !title.endsWith('beside unknown fields')

describe('the contract, through cellstore/client', () => {
  let bench: Bench
  beforeAll(async () => {
    bench = await Bench.open(viaFetch)
  })
  afterAll(() => bench.close())

  // Hrana has clients of its own.
  const ours = AREAS.filter(([area]) => area !== 'Hrana')
  const areas = ours.map(([area, rows]) => [area, rows.filter(isCall)] as const)
  describe.each(areas.filter(([, rows]) => rows.length > 0))('%s', (_area, rows) => {
    test.each(rows)('$title: $ask.method is answered $status', async (row) => {
      bench.newCell()
      await bench.serve(bench.store, viaFetch)
      if (typeof row.before === 'function') await row.before(bench)
      else for (const ask of row.before ?? []) await bench.send(ask)
      await bench.serve(bench.store, viaClient)
      checkReply(await bench.send(row.ask), row)
    })
  })
})
