import * as z from 'zod'

/** What the OpenAPI document says of a schema beyond its type. A schema with an id is a component of the document. */
export interface SchemaNotes {
  id?: string
  description?: string
  format?: string
}

/** A registry of our own: the global one belongs to the program that embeds us. */
export const NOTES = z.registry<SchemaNotes>()

const SHAPES = new WeakMap<z.ZodType, () => z.ZodType>()

/**
 * Marks a schema whose value is checked by hand, or later: it says itself little of what passes.
 *
 * @param shape what passes, for the OpenAPI document alone; made when the document is
 * @returns a copy of the schema
 */
export function checkedByHand<S extends z.ZodType>(schema: S, shape: () => z.ZodType): S {
  const copy = schema.clone() as S
  SHAPES.set(copy, shape)
  return copy
}

/** What passes a schema that is {@link checkedByHand}. */
export function shapeOf(schema: object): z.ZodType | undefined {
  return SHAPES.get(schema as z.ZodType)?.()
}

/** @returns a copy of the schema, with what the document says of it: the schema itself may stand in many places */
export function noted<S extends z.ZodType>(schema: S, notes: SchemaNotes): S {
  const shape = SHAPES.get(schema)
  const copy = shape === undefined ? (schema.clone() as S) : checkedByHand(schema, shape)
  NOTES.add(copy, notes)
  return copy
}
