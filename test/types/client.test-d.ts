import { expectTypeOf, test } from 'vitest'
import { type Client, isProblem, type ProblemCode } from '../../src/client/index.ts'

declare const cells: Client

test('A method takes the arguments of its operation, and no other', () => {
  expectTypeOf(cells.kvPut).toBeCallableWith({ id: 'x', key: 'k', value: 'v', ttl_seconds: 5 })
  expectTypeOf(cells.listCells).toBeCallableWith()
  expectTypeOf(cells.backup).toBeCallableWith({ id: 'x' })
  expectTypeOf(cells.backupIncremental).toBeCallableWith({ id: 'x' })
  expectTypeOf(cells.restore).toBeCallableWith({ id: 'x', version: 'y' })
  // @ts-expect-error: its body has no fields
  cells.backup({ id: 'x', version: 'y' })
  // @ts-expect-error: ttl_seconds
  cells.kvPut({ id: 'x', key: 'k', value: 'v', ttl: 5 })
  // @ts-expect-error: the value is missing
  cells.kvPut({ id: 'x', key: 'k' })
  // @ts-expect-error: the arguments are missing
  cells.getCell()
})

test('A method answers what its operation does', () => {
  expectTypeOf<Awaited<ReturnType<Client['kvTtl']>>>().toEqualTypeOf<(number | null)[]>()
  expectTypeOf<Awaited<ReturnType<Client['createCell']>>['name']>().toEqualTypeOf<string | null>()
  const key = { id: 'x', key: 'k' }
  expectTypeOf(cells.kvGet(key)).resolves.toHaveProperty('value').toEqualTypeOf<string>()
  expectTypeOf(cells.kvGet(key, { headers: { 'if-none-match': '"1"' } })).resolves.toEqualTypeOf<
    Awaited<ReturnType<Client['kvGet']>> | undefined
  >()
  expectTypeOf(cells.sql<{ n: number }>({ id: 'x', sql: 'x' }))
    .resolves.toHaveProperty('rows')
    .toEqualTypeOf<{ n: number }[]>()
})

test('The codes of errors are a closed union', () => {
  const error: unknown = undefined
  if (isProblem(error)) expectTypeOf(error.code).toEqualTypeOf<ProblemCode>()
  expectTypeOf<'rate_limited'>().toExtend<ProblemCode>()
  expectTypeOf<'no_such_code'>().not.toExtend<ProblemCode>()
})
