import { Ajv2020, type ValidateFunction } from 'ajv/dist/2020.js'
import { describeRoutes } from '../../../scripts/openapi/document.ts'
import { OPERATIONS } from '../../../scripts/openapi/operations.ts'
import { STATUS_OF_CODE } from '../../../src/http/core/problem.ts'
import { Router } from '../../../src/http/core/router.ts'
import { ROUTES } from '../../../src/http/routes/routes.ts'
import type { RawReply, RawRequest } from './raw-exchange.ts'

interface Documented {
  requestBody?: object
  responses: Record<string, { $ref: string } | { content?: Record<string, object> }>
}

const MEND = 'Mend scripts/openapi/operations.ts or the schema, and run `npm run openapi`.'
const router = new Router(ROUTES)
const document = closed(describeRoutes(ROUTES, OPERATIONS))
const ajv = new Ajv2020({ strict: false, validateFormats: false })
ajv.addSchema(document, 'openapi')
const validators = new Map<string, ValidateFunction>()

/**
 * Checks an answer against the OpenAPI document, and that the document allows a request that was answered with success. No
 * answer may have a member that the document lacks.
 *
 * @throws says what differs
 */
export function checkDocumented(request: RawRequest, reply: RawReply, mount = ''): void {
  const [path = ''] = request.path.slice(mount.length).split('?')
  const match = router.match(path)
  const method = request.method === 'HEAD' ? 'get' : request.method.toLowerCase()
  const template = match?.resource.path ?? ''
  const operation = document.paths[template]?.[method] as Documented | undefined
  // Every answer of ours has the header; what a framework answers in our place has not.
  if (operation === undefined || !reply.headers.has('x-request-id')) return
  const pointer = `#/paths/${template.replaceAll('/', '~1')}/${method}`
  const title = `${request.method} ${template}`
  checkAnswer(operation, reply, { pointer, title, hasBody: request.method !== 'HEAD' })
  if (reply.status >= 300) return
  if (operation.requestBody === undefined || !request.body?.length) return
  const body = JSON.parse(Buffer.from(request.body).toString())
  check(`${pointer}/requestBody/content/application~1json/schema`, body, `The body that ${title} took`)
}

function checkAnswer(
  operation: Documented,
  { status, headers, text }: RawReply,
  { pointer, title, hasBody }: { pointer: string; title: string; hasBody: boolean },
): void {
  const response = operation.responses[status]
  const type = headers.get('content-type') ?? ''
  if (response === undefined) {
    throw new Error(`${title} answered ${status}, which the OpenAPI document lacks: ${text}. ${MEND}`)
  }
  const place = '$ref' in response ? response.$ref : `${pointer}/responses/${status}`
  if (!hasBody) return
  if (!('$ref' in response) && response.content === undefined) {
    if (text !== '')
      throw new Error(`${title} answered ${status} with a body, and the document has none. ${MEND}`)
    return
  }
  const isText = /^(text\/event-stream|application\/vnd\.sqlite3|application\/x-ndjson)/.test(type)
  const answer = isText ? text : JSON.parse(text)
  check(
    `${place}/content/${type.replace(/;.*/, '').replace('/', '~1')}/schema`,
    answer,
    `What ${title} answered`,
  )
  // The codes of Hrana are not ours alone.
  if (/\/v[23]\/(pipeline|cursor)$/.test(title)) return
  if (status >= 400 && STATUS_OF_CODE[answer.code as keyof typeof STATUS_OF_CODE] !== status) {
    throw new Error(`${title} answered ${answer.code} with ${status}.`)
  }
}

function check(pointer: string, value: unknown, what: string): void {
  let validate = validators.get(pointer)
  if (validate === undefined) {
    validate = ajv.compile({ $ref: `openapi${pointer}` })
    validators.set(pointer, validate)
  }
  if (validate(value)) return
  const why = ajv.errorsText(validate.errors)
  throw new Error(
    `${what} does not fit the OpenAPI document: ${why}: ${JSON.stringify(value).slice(0, 500)}. ${MEND}`,
  )
}

/** The document leaves room for members to come; we want to hear of each. */
function closed<T>(document: T): T {
  const copy = JSON.parse(JSON.stringify(document))
  const close = (value: unknown): void => {
    if (typeof value !== 'object' || value === null) return
    const schema = value as Record<string, unknown>
    if (schema['type'] === 'object' && 'properties' in schema) schema['additionalProperties'] ??= false
    Object.entries(schema).forEach(([name, inner]) => {
      if (name !== 'requestBody') close(inner)
    })
  }
  close(copy)
  return copy
}
