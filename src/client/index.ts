// cellstore/client: a client of the HTTP interface for Node.js, browsers and other runtimes with fetch. What it imports is bundled.

export { type ArgumentCode, ArgumentError } from './arguments.ts'
export { createClient } from './client.ts'
export type { ClientOptions, Fetch } from './client-options.ts'
export { isProblem, ProblemError, Redirected } from './problem-error.ts'
export type { components, operations, paths } from './schema.generated.ts'
export type {
  AnswerOf,
  ArgumentsOf,
  BodyOf,
  CallOptions,
  ChangeEvent,
  ChangesArguments,
  ChangesOptions,
  Client,
  Method,
  Problem,
  ProblemCode,
  Row,
  RowsAnswer,
  SqlParam,
  SqlValue,
} from './types.ts'
export { blob, bytesOf, integer, real } from './values.ts'
