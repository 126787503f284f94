/**
 * Writes the OpenAPI document from the routes and their schemas, and from the document what the client needs: the types
 * and a table of the operations. `npm run openapi`; a test fails while a file differs.
 */
import fs from 'node:fs'
import { pathToFileURL } from 'node:url'
import openapiTypeScript, { astToString } from 'openapi-typescript'
import type { BodyFields } from '../src/client/operation-row.ts'
import { ROUTES } from '../src/http/routes/routes.ts'
import { describeRoutes, type OpenApiDocument } from './openapi/document.ts'
import { OPERATIONS } from './openapi/operations.ts'

const PROJECT = new URL('../', import.meta.url)
const BY = 'Made by `npm run openapi`.'

/** Each generated file, by its path in the project. */
export async function generatedFiles(): Promise<Record<string, string>> {
  const document = describeRoutes(ROUTES, OPERATIONS)
  return {
    'src/http/openapi/document.generated.json': `${JSON.stringify(document, null, 1)}\n`,
    'src/client/schema.generated.ts': await typesOf(document),
    'src/client/operations.generated.ts': tableOf(document),
  }
}

async function typesOf(document: OpenApiDocument): Promise<string> {
  // It changes what it is given.
  const copy = JSON.parse(JSON.stringify(document))
  return `// ${BY}\n\n${astToString(await openapiTypeScript(copy))}`
}

/** Where each operation is, and which of its arguments go where; the rest of them are the body. */
function tableOf({ paths }: OpenApiDocument): string {
  const rows = Object.entries(paths).flatMap(([path, methods]) =>
    Object.entries(methods).flatMap(([method, operation]) => {
      const { operationId, tags, parameters = [], requestBody, responses } = operation as DocumentedOperation
      // It has clients of its own.
      if (tags.includes('Hrana')) return []
      const inBody = fieldsOf(requestBody?.content['application/json']?.schema ?? {})
      const inQuery = parameters.filter((each) => each.in === 'query' && !Object.hasOwn(inBody, each.name))
      const idempotent = parameters.some(({ name }) => name === 'Idempotency-Key')
      const row = {
        method: method.toUpperCase(),
        path,
        query: inQuery.map(({ name }) => name),
        body: requestBody === undefined ? null : inBody,
        idempotent,
        ...(responses['200']?.content?.['application/vnd.sqlite3'] && { answersFile: true }),
      }
      return `  ${operationId}: ${JSON.stringify(row)},`
    }),
  )
  return `// ${BY}

import type { OperationRow } from './operation-row.ts'

export const OPERATIONS = {
${rows.join('\n')}
} as const satisfies Record<string, OperationRow>
`
}

/** The fields of an object, or of the objects in a list, in any of their forms. */
function fieldsOf({ properties = {}, items, anyOf = [] }: Schema): BodyFields {
  const own = Object.entries(properties).map(([name, field]) => [name, fieldsOf(field)])
  const forms = items === undefined ? anyOf : [items, ...anyOf]
  return Object.assign(Object.fromEntries(own), ...forms.map(fieldsOf))
}

interface Schema {
  properties?: Record<string, Schema>
  items?: Schema
  anyOf?: Schema[]
}
interface DocumentedOperation {
  operationId: string
  tags: string[]
  parameters?: { name: string; in: string }[]
  requestBody?: { content: Record<string, { schema?: Schema }> }
  responses: Record<string, { content?: Record<string, object> }>
}

if (import.meta.url === pathToFileURL(process.argv[1] ?? '').href) {
  for (const [file, text] of Object.entries(await generatedFiles())) {
    fs.writeFileSync(new URL(file, PROJECT), text)
  }
}
