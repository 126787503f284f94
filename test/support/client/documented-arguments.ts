import document from '../../../src/http/openapi/document.generated.json' with { type: 'json' }

/** An argument of an operation of the OpenAPI document, or a field of one. */
export interface DocumentedArgument {
  operation: string
  /** As an error names it: `entries[0].if_version`. */
  path: string
  isRequired: boolean
  /** Whether it may be undefined: it narrows and guards nothing. */
  isFree: boolean
  /** Arguments of the operation with this value at its place, and with what else has to be there. */
  with(value: unknown): Record<string, unknown>
}

interface Schema {
  type?: string | string[]
  const?: unknown
  enum?: unknown[]
  properties?: Record<string, Schema>
  required?: string[]
  items?: Schema
  anyOf?: Schema[]
}
interface Operation {
  operationId: string
  tags: string[]
  parameters?: { name: string; in: string; required?: boolean; schema: Schema }[]
  requestBody?: { content: Record<string, { schema: Schema }> }
}

/** All other arguments are refused where they are undefined. A new one belongs here only if its absence is a mere default. */
const FREE = ['cursor', 'limit', 'reverse', 'values', 'timeout_ms', 'row_mode', 'params', 'delta']

/** Every argument of every operation, and their fields, from what the server checks with. */
export function documentedArguments(): DocumentedArgument[] {
  return operations().flatMap(argumentsOf)
}

/** The operations of the document, in its order. */
export function documentedOperations(): string[] {
  return operations().map(({ operationId }) => operationId)
}

/** Those of our client: Hrana has its own. */
function operations(): Operation[] {
  const paths: Record<string, Record<string, Operation>> = JSON.parse(JSON.stringify(document.paths))
  return Object.values(paths)
    .flatMap((methods) => Object.values(methods))
    .filter(({ tags }) => !tags.includes('Hrana'))
}

function argumentsOf({ operationId: operation, parameters = [], requestBody }: Operation) {
  const schema = schemaOf(parameters, requestBody?.content['application/json']?.schema ?? {})
  const inBody = requestBody?.content['application/json']?.schema.properties ?? {}
  return fieldsOf(schema).map(({ path, isRequired, with: make }) => {
    const name = /\w+$/.exec(path)?.[0] ?? ''
    const isFree = FREE.includes(name) || (path === 'name' && Object.hasOwn(inBody, 'name'))
    return { operation, path, isRequired, isFree, with: make }
  })
}

/** Path, query and body as one object, as the client takes them. */
function schemaOf(parameters: Operation['parameters'] = [], body: Schema): Schema {
  const others = parameters.filter(({ in: place }) => place !== 'header')
  // The client takes a list, and joins it.
  const listed = others.map(({ name, schema }) => [name, name === 'tables' ? { items: {} } : schema])
  return {
    properties: { ...Object.fromEntries(listed), ...body.properties },
    required: [
      ...others.filter(({ required }) => required).map(({ name }) => name),
      ...(body.required ?? []),
    ],
  }
}

type Field = Pick<DocumentedArgument, 'path' | 'isRequired' | 'with'>

function fieldsOf({ properties = {}, required = [] }: Schema): Field[] {
  const base = Object.fromEntries(required.map((name) => [name, sampleOf(properties[name] ?? {})]))
  return Object.entries(properties).flatMap(([name, schema]) => {
    const own = (value: unknown) => ({ ...base, [name]: value })
    const nested = formsOf(schema).flatMap(({ isItem, form }) =>
      fieldsOf(form).map((field) => ({
        path: `${name}${isItem ? '[0]' : ''}.${field.path}`,
        isRequired: field.isRequired,
        with: (value: unknown) => own(isItem ? [field.with(value)] : field.with(value)),
      })),
    )
    return [{ path: name, isRequired: required.includes(name), with: own }, ...nested]
  })
}

/** The objects that a value can be, or that its list can hold. */
function formsOf(
  { items, anyOf = [], properties, required = [] }: Schema,
  isItem = false,
): { form: Schema; isItem: boolean }[] {
  const own = properties === undefined ? [] : [{ form: { properties, required }, isItem }]
  const forms = own.length > 0 ? own : anyOf.flatMap((form) => formsOf(form, isItem))
  return [...forms, ...(items === undefined ? [] : formsOf(items, true))]
}

function sampleOf({ const: fixed, enum: some, items, type }: Schema): unknown {
  return fixed ?? some?.[0] ?? (items === undefined ? (type === 'integer' ? 1 : 'x') : [])
}
