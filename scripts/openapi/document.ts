import * as z from 'zod'
import {
  createDocument,
  createSchema,
  type oas31,
  type ZodOpenApiContentObject,
  type ZodOpenApiOperationObject,
  type ZodOpenApiOverride,
  type ZodOpenApiRequestBodyObject,
  type ZodOpenApiResponseObject,
} from 'zod-openapi'
import packageJson from '../../package.json' with { type: 'json' }
import { problemAnswer } from '../../src/http/answers/problem-document.ts'
import { SQLITE_TYPE } from '../../src/http/body/file-body.ts'
import type { Route } from '../../src/http/routes/routes.ts'
import { uuid } from '../../src/service/json/answer-fields.ts'
import { NOTES, shapeOf } from '../../src/service/json/schema-notes.ts'
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
} as const
const SECURITY_SCHEMES = {
  apiKey: { type: 'apiKey', in: 'header', name: 'x-api-key' },
  bearer: { type: 'http', scheme: 'bearer' },
} as const

/** A body that is a database. */
const DATABASE = { [SQLITE_TYPE]: { schema: { type: 'string', format: 'binary' } } } as const

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
  const problems = new ProblemResponses()
  const paths: Record<string, Record<string, object>> = {}
  const tags = new Set<string>()
  for (const route of routes) {
    const [method, path] = route
    const operation = operations[`${method} ${path}`]
    if (operation === undefined) throw new Error(`${method} ${path} has no entry in operations.ts.`)
    tags.add(operation.tag)
    paths[path] ??= {}
    paths[path][method.toLowerCase()] = describe(route, operation, problems)
  }
  const { name, version, license } = packageJson
  const document = createDocument(
    {
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
        schemas: {
          ...components(),
          Problem: problemAnswer,
          ProblemCode: { type: 'string', enum: codesOverHttp() },
        },
        responses: problems.components,
        headers: HEADERS,
        securitySchemes: SECURITY_SCHEMES,
      },
    },
    { override: describeSchema },
  )
  for (const methods of Object.values(document.paths ?? {}))
    for (const { parameters = [] } of Object.values(methods)) parameters.forEach(describeParameter)
  const { schemas = {} } = document.components ?? {}
  // By name: they come in the order of the imports.
  const ordered = Object.fromEntries(Object.entries(schemas).sort(([a], [b]) => (a < b ? -1 : 1)))
  return {
    ...document,
    components: { ...document.components, schemas: ordered },
  } as unknown as OpenApiDocument
}

/** The description of a parameter is not that of its schema: the same schema may stand for several. */
function describeParameter(parameter: oas31.ParameterObject): void {
  const { description, ...schema } = parameter.schema as oas31.SchemaObject
  if (description !== undefined) Object.assign(parameter, { description, schema })
}

function describe(route: Route, operation: Operation, problems: ProblemResponses): ZodOpenApiOperationObject {
  const [method, path, action] = route
  const { id, tag, summary, status = 200, otherwise, query, headers } = operation
  // A deletion reads its body only to refuse what is in it, and generators know no deletions with a body.
  const body = method === 'DELETE' ? undefined : action.body
  const names = [...path.matchAll(/\{(\w+)\}/g)].map(([, name = '']) => name)
  const inPath = Object.fromEntries(names.map((name) => [name, name === 'key' ? z.string() : uuid]))
  return {
    operationId: id,
    tags: [tag],
    summary,
    ...(action.needsKey ? {} : { security: [] }),
    ...paramsOf({ path: inPath, query: optional(query), header: optional(headers) }),
    ...(body === undefined ? {} : { requestBody: bodyOf(body, operation) }),
    responses: {
      [status]: successOf(operation, DATABASE),
      ...(otherwise === undefined ? {} : { [otherwise.status]: successOf(otherwise) }),
      ...problems.of(operation, codesOf(route, operation)),
    },
  }
}

type Fields = Record<string, z.ZodType>

function optional(fields: Readonly<Fields> = {}): Fields {
  return Object.fromEntries(Object.entries(fields).map(([name, field]) => [name, field.optional()]))
}

/** A document has no empty list of parameters. */
function paramsOf(places: Record<string, Fields>): Pick<ZodOpenApiOperationObject, 'requestParams'> {
  const some = Object.entries(places).filter(([, fields]) => Object.keys(fields).length > 0)
  if (some.length === 0) return {}
  return { requestParams: Object.fromEntries(some.map(([place, fields]) => [place, z.object(fields)])) }
}

/** A body of which nothing is required may be left out. */
function bodyOf(body: z.ZodType, { file }: Operation): ZodOpenApiRequestBodyObject {
  const required = !body.safeParse({}).success
  return { required, content: { 'application/json': { schema: body }, ...(file ? DATABASE : {}) } }
}

function successOf(
  { summary, answer, mediaType = 'application/json', answerHeaders = {} }: Omit<Success, 'status'>,
  withoutAnswer?: ZodOpenApiContentObject,
): ZodOpenApiResponseObject {
  const headers = Object.entries(answerHeaders).map(([name, description]) => [
    name,
    { description, schema: { type: 'string' } },
  ])
  const content = answer === undefined ? withoutAnswer : { [mediaType]: { schema: answer } }
  return {
    description: summary,
    headers: { ...REQUEST_ID, ...Object.fromEntries(headers) },
    ...(content === undefined ? {} : { content }),
  }
}

/** Adds what `noted` and `checkedByHand` say of a schema. Removes what says nothing: bounds of exact integers, and that an object may have more. */
const describeSchema: ZodOpenApiOverride = ({ zodSchema, jsonSchema, io }) => {
  const shape = shapeOf(zodSchema)
  if (shape !== undefined) {
    const options = { io, schemaComponents: components(), opts: { override: describeSchema } }
    Object.assign(jsonSchema, createSchema(shape, options).schema)
  }
  const { id: _, ...notes } = NOTES.get(zodSchema as unknown as z.ZodType) ?? {}
  Object.assign(jsonSchema, notes)
  if (jsonSchema.maximum === Number.MAX_SAFE_INTEGER) delete jsonSchema.maximum
  if (jsonSchema.minimum === Number.MIN_SAFE_INTEGER) delete jsonSchema.minimum
  if (!(zodSchema instanceof z.ZodObject)) return
  if (zodSchema.def.catchall?._zod.def.type !== 'never') delete jsonSchema.additionalProperties
  // The package says nothing more of what it refers to.
  for (const [name, property] of Object.entries(jsonSchema.properties ?? {})) {
    const { id, description } = NOTES.get(zodSchema.shape[name]) ?? {}
    const isReference = typeof property === 'object' && property.$ref !== undefined
    if (isReference && id === undefined && description !== undefined) property.description = description
  }
}

function components(): Record<string, z.ZodType> {
  return Object.fromEntries(NOTES._idmap) as Record<string, z.ZodType>
}
