import type { CellError } from '../../errors.ts'
import { hranaErrorOf } from '../../service/hrana/hrana-errors.ts'
import { problemResponse } from '../core/problem.ts'

/** The paths of the protocol, wherever they stand: also where a client asks that has dropped the end of its URL. */
const HRANA_PATH = /\/v[123](?:-protobuf)?\/(?:pipeline|cursor)$/
const WITHOUT_CELL = /^\/v1\/databases\/v[123](?:-protobuf)?\/(?:pipeline|cursor)$/

export function isHranaPath(path: string): boolean {
  return HRANA_PATH.test(path)
}

/** Clients resolve `v2/pipeline` against their URL, whose last segment they drop if no slash follows it. */
export function lacksSlash(path: string): boolean {
  return WITHOUT_CELL.test(path)
}

/** An error as the clients of Hrana read one: with any other type they show its status alone. */
export function hranaProblem(
  error: unknown,
  requestId: string,
  show: (error: unknown) => CellError,
): ReturnType<typeof problemResponse> {
  const response = problemResponse(error, requestId, show)
  const headers = { ...response.headers, 'Content-Type': 'application/json' }
  return { ...response, headers, body: JSON.stringify(hranaErrorOf(show(error))) }
}
