import type * as z from 'zod'
import packageJson from '../../../package.json' with { type: 'json' }
import { uuid } from '../../service/json/answer-fields.ts'
import { problemAnswer } from '../answers/problem-document.ts'
import { SQLITE_TYPE } from '../file-body.ts'
import type { Route } from '../routes.ts'
import { type JsonSchema, JsonSchemas } from './json-schemas.ts'
import type { Operation, Success } from './operation.ts'
import { ProblemResponses, REQUEST_ID } from './problem-responses.ts'
import { codesOf, codesOverHttp } from './route-codes.ts'

/** A description of routes as OpenAPI 3.1. */
export interface OpenApiDocument {
  openapi: string
  info: object
  security: object[]
  tags: { name: string }[]
  paths: Record<string, Record<string, object>>
  components: Record<string, object>
}

const PATH_PARAMETERS: Readonly<Record<string, z.ZodType>> = {
  id: uuid,
  key_id: uuid,
  account_id: uuid,
  restore_id: uuid,
}

const HEADERS = {
  RequestId: {
    description: 'The request’s id: the one that was sent, or a new one.',
    required: true,
    schema: { type: 'string' },
  },
  RetryAfter: {
    description: 'Seconds to wait before the request is sent again.',
    required: true,
    schema: { type: 'integer', minimum: 1 },
  },
}
const SECURITY_SCHEMES = {
  apiKey: { type: 'apiKey', in: 'header', name: 'x-api-key' },
  bearer: { type: 'http', scheme: 'bearer' },
}

/** A body that is a database. */
const DATABASE = { [SQLITE_TYPE]: { schema: { type: 'string', format: 'binary' } } }

/**
 * Describes routes.
 *
 * @param operations by method and path: `GET /healthz`
 * @throws for a route without an operation
 */
export function describeRoutes(
  routes: readonly Route[],
  operations: Readonly<Record<string, Operation>>,
): OpenApiDocument {
  const schemas = new JsonSchemas()
  const problems = new ProblemResponses()
  const paths: OpenApiDocument['paths'] = {}
  const tags = new Set<string>()
  for (const route of routes) {
    const [method, path] = route
    const operation = operations[`${method} ${path}`]
    if (operation === undefined) throw new Error(`${method} ${path} has no entry in operations.ts.`)
    tags.add(operation.tag)
    paths[path] ??= {}
    paths[path][method.toLowerCase()] = describe(route, operation, { schemas, problems })
  }
  schemas.of(problemAnswer)
  schemas.components['ProblemCode'] = { type: 'string', enum: codesOverHttp() }
  const { name, version, license } = packageJson
  return {
    openapi: '3.1.1',
    info: {
      title: name,
      version,
      description: 'SQLite databases, one for each tenant, with SQL, KV and backups.',
      license: { name: license, identifier: license },
    },
    security: Object.keys(SECURITY_SCHEMES).map((scheme) => ({ [scheme]: [] })),
    tags: [...tags].map((tag) => ({ name: tag })),
    paths,
    components: {
      schemas: schemas.components,
      responses: problems.components,
      headers: HEADERS,
      securitySchemes: SECURITY_SCHEMES,
    },
  }
}

function describe(
  route: Route,
  operation: Operation,
  { schemas, problems }: { schemas: JsonSchemas; problems: ProblemResponses },
) {
  const [method, path, action] = route
  const { otherwise } = operation
  // A deletion reads its body only to refuse what is in it, and generators know no deletions with a body.
  const body = method === 'DELETE' ? undefined : action.body
  const names = [...path.matchAll(/\{(\w+)\}/g)].map(([, name = '']) => name)
  const parameters = [
    ...names.map((name) => ({ name, in: 'path', required: true, schema: pathParameter(name, schemas) })),
    ...parametersOf('query', operation.query, schemas),
    ...parametersOf('header', operation.headers, schemas),
  ]
  return {
    operationId: operation.id,
    tags: [operation.tag],
    summary: operation.summary,
    ...(action.needsKey ? {} : { security: [] }),
    ...(parameters.length === 0 ? {} : { parameters }),
    ...(body === undefined ? {} : { requestBody: bodyOf(body, operation, schemas) }),
    responses: {
      [operation.status ?? 200]: successOf(operation, schemas, DATABASE),
      ...(otherwise === undefined ? {} : { [otherwise.status]: successOf(otherwise, schemas) }),
      ...problems.of(operation.id, codesOf(route, operation)),
    },
  }
}

function pathParameter(name: string, schemas: JsonSchemas): JsonSchema {
  const schema = PATH_PARAMETERS[name]
  return schema === undefined ? { type: 'string' } : schemas.of(schema)
}

function parametersOf(place: 'query' | 'header', fields: Operation['query'] = {}, schemas: JsonSchemas) {
  return Object.entries(fields).map(([name, field]) => {
    const { description, ...schema } = schemas.of(field)
    return { name, in: place, ...(description === undefined ? {} : { description }), schema }
  })
}

/** A body of which nothing is required may be left out. */
function bodyOf(body: z.ZodType, { file }: Operation, schemas: JsonSchemas) {
  const required = !body.safeParse({}).success
  const json = { 'application/json': { schema: schemas.of(body) } }
  return { required, content: { ...json, ...(file ? DATABASE : {}) } }
}

function successOf(
  { summary, answer, mediaType = 'application/json', answerHeaders = {} }: Omit<Success, 'status'>,
  schemas: JsonSchemas,
  withoutAnswer: object | undefined = undefined,
) {
  const headers = Object.entries(answerHeaders).map(([name, description]) => [
    name,
    { description, schema: { type: 'string' } },
  ])
  const content = answer === undefined ? withoutAnswer : { [mediaType]: { schema: schemas.of(answer) } }
  return {
    description: summary,
    headers: { ...REQUEST_ID, ...Object.fromEntries(headers) },
    ...(content === undefined ? {} : { content }),
  }
}
