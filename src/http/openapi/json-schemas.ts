import * as z from 'zod'
import { NOTES, shapeOf } from '../../service/json/schema-notes.ts'

export type JsonSchema = z.core.JSONSchema.BaseSchema

/** Makes JSON Schemas (2020-12, which is OpenAPI's) from schemas of zod. Those with an id become components. */
export class JsonSchemas {
  readonly components: Record<string, JsonSchema> = {}

  of(schema: z.ZodType): JsonSchema {
    const { $schema, $defs, ...rest } = z.toJSONSchema(schema, {
      io: 'input',
      unrepresentable: 'any',
      metadata: NOTES,
      override: ({ zodSchema, jsonSchema }) => {
        const shape = shapeOf(zodSchema)
        if (shape !== undefined) Object.assign(jsonSchema, { ...this.of(shape), ...jsonSchema })
        tidy(jsonSchema)
      },
    })
    Object.assign(this.components, inComponents($defs ?? {}))
    return inComponents(rest)
  }
}

/** JSON Schema keeps what is named next to a schema; OpenAPI keeps it in the document's components. */
function inComponents<T extends object>(schema: T): T {
  return JSON.parse(JSON.stringify(schema).replaceAll('"#/$defs/', '"#/components/schemas/'))
}

/** Removes what says nothing: bounds of every exact integer, and that other members may be anything. */
function tidy(schema: JsonSchema): void {
  delete schema['id']
  if (schema.maximum === Number.MAX_SAFE_INTEGER) delete schema.maximum
  if (schema.minimum === Number.MIN_SAFE_INTEGER) delete schema.minimum
  const others = schema.additionalProperties
  const anyOther = typeof others === 'object' && Object.keys(others).length === 0
  if (anyOther && schema.properties !== undefined) delete schema.additionalProperties
}
