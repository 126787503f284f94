import fs from 'node:fs'
import path from 'node:path'
import { Validator } from '@seriousme/openapi-schema-validator'
import { describe, expect, onTestFinished, test } from 'vitest'
import { describeRoutes } from '../../scripts/openapi/document.ts'
import { OPERATIONS } from '../../scripts/openapi/operations.ts'
import { ROUTES } from '../../src/http/routes/routes.ts'
import { Bench } from '../support/http/bench.ts'
import { checkDocumented } from '../support/http/documented.ts'
import { TRANSPORTS, viaFetch } from '../support/http/transports.ts'

const rows = ROUTES.map(([method, route]) => `${method} ${route}`)

describe('the OpenAPI document', () => {
  test('describes every route, and no other', () => {
    const missing = rows.filter((row) => !(row in OPERATIONS))
    const mend =
      'Add an entry to OPERATIONS in scripts/openapi/operations.ts (its id, a schema of its answer from src/http/answers or src/service/json, its codes), then run `npm run openapi`.'
    expect(missing, missing.length === 0 ? '' : `${missing.join(', ')} has no description. ${mend}`).toEqual(
      [],
    )
    expect(Object.keys(OPERATIONS).filter((row) => !rows.includes(row))).toEqual([])
  })

  test('refuses to be made for a route that has no description', () => {
    expect(() => describeRoutes(ROUTES, {})).toThrow('GET /healthz has no entry in operations.ts.')
  })

  test('is valid OpenAPI 3.1', async () => {
    const document = JSON.parse(JSON.stringify(describeRoutes(ROUTES, OPERATIONS)))
    const outcome = await new Validator().validate(document)
    expect(outcome).toEqual({ valid: true })
    expect(document.openapi).toMatch(/^3\.1\./)
  })

  test('gives every operation a name of its own', () => {
    const ids = Object.values(OPERATIONS).map(({ id }) => id)
    expect(ids).toEqual([...new Set(ids)])
  })

  test.each(ROUTES)('names the parameters that %s %s takes', (method, route, action) => {
    const described = Object.keys(OPERATIONS[`${method} ${route}`]?.query ?? {})
    const why = 'Give the operation in scripts/openapi/operations.ts the same parameters in `query`.'
    expect(described.sort(), why).toEqual([...(action.query ?? [])].sort())
  })

  test('has one place for each argument of an operation, so that clients need not name the place', () => {
    for (const [row, { query = {}, file }] of Object.entries(OPERATIONS)) {
      const [method, route = ''] = row.split(' ')
      const body = ROUTES.find(([verb, at]) => verb === method && at === route)?.[2].body
      const inBody = body !== undefined && 'shape' in body ? Object.keys(body.shape as object) : []
      const inPath = [...route.matchAll(/\{(\w+)\}/g)].map(([, name]) => name)
      // A database has no fields, so that there a field of the JSON body is a parameter.
      const inQuery = Object.keys(query).filter((name) => file === undefined || !inBody.includes(name))
      const names = [...inPath, ...inQuery, ...inBody]
      expect({ row, names }).toEqual({ row, names: [...new Set(names)] })
    }
  })

  test('lists the routes that docs/http-api.md lists', () => {
    const prose = fs.readFileSync(path.join(import.meta.dirname, '..', '..', 'docs', 'http-api.md'), 'utf8')
    const inProse = [...prose.matchAll(/`(GET|PUT|POST|DELETE|PATCH) ([^\s`?]+)/g)].map(
      ([, method, route = '']) => `${method} ${route.replace('…', '/v1/databases/{id}')}`,
    )
    expect([...new Set(inProse)].sort()).toEqual([...rows].sort())
  })
})

describe.each(TRANSPORTS)('GET /openapi.json, through %s', (_name, transport) => {
  test('needs no key and gives the document, with the server that it came from', async () => {
    const bench = await Bench.open(transport)
    onTestFinished(() => bench.close())
    const { status, json } = await bench.send({ method: 'GET', path: '/openapi.json', key: null })
    expect(status).toBe(200)
    expect(json).toEqual({ ...describeRoutes(ROUTES, OPERATIONS), servers: [{ url: '/' }] })
  })
})

test('below a path, the document names it as the server', async () => {
  const bench = await Bench.open(viaFetch, { handler: { basePath: '/cells' } })
  onTestFinished(() => bench.close())
  const { json } = await bench.send({ method: 'GET', path: '/cells/openapi.json', key: null })
  expect(json).toMatchObject({ servers: [{ url: '/cells' }] })
})

describe('an answer that the document does not describe is found:', () => {
  const headers = new Headers({ 'content-type': 'application/json', 'x-request-id': 'x' })
  const problems = new Headers({ 'content-type': 'application/problem+json', 'x-request-id': 'x' })
  const put = { method: 'PUT', path: '/v1/databases/x/kv/k', headers: {}, body: '{"value":"v"}' }
  const result = { key: 'k', created: true, version: '1', ttl_seconds: -1, expires_at: null }
  const problem = {
    ...{ type: 'about:blank', title: 'x', status: 404, detail: 'x', request_id: 'x' },
    code: 'cell_not_found',
  }

  test('nothing, if it is described', () => {
    checkDocumented(put, { status: 200, headers, text: JSON.stringify(result) })
    checkDocumented(put, { status: 404, headers: problems, text: JSON.stringify(problem) })
  })

  test.each([
    ['another status', put, 202, headers, result, /answered 202, which the OpenAPI document lacks/],
    ['another member', put, 200, headers, { ...result, colour: 1 }, /additional properties/],
    ['a missing member', put, 200, headers, { ...result, created: undefined }, /created/],
    ['another type', put, 200, headers, { ...result, ttl_seconds: '1' }, /integer/],
    ['a code of other routes', put, 404, problems, { ...problem, code: 'key_not_found' }, /allowed values/],
    ['another member of a problem', put, 404, problems, { ...problem, path: '/x' }, /additional properties/],
    ['a body that was taken', { ...put, body: '{"value":1}' }, 200, headers, result, /The body/],
  ])('%s', (_what, request, status, sent, body, why) => {
    const reply = { status, headers: sent, text: JSON.stringify(body) }
    expect(() => checkDocumented(request, reply)).toThrow(why)
  })
})
