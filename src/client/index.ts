// cellstore/client: a client of the HTTP interface for Node.js, browsers and other runtimes with fetch. It imports nothing.

export type { ChangeEvent, ChangesArguments, ChangesOptions } from './change-types.ts'
export { type ClientOptions, createClient } from './client.ts'
export { isProblem, ProblemError } from './problem-error.ts'
export type { components, operations, paths } from './schema.generated.ts'
export type {
  AnswerOf,
  ArgumentsOf,
  BodyOf,
  CallOptions,
  Client,
  Method,
  Problem,
  ProblemCode,
  Row,
  RowsAnswer,
  SqlParam,
  SqlValue,
} from './types.ts'
export { blob, bytesOf, integer } from './values.ts'
