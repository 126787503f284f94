import type { Problem, ProblemCode } from './types.ts'

/** The answer to a refused or failed request. Switch on {@link ProblemError.code}. */
export class ProblemError extends Error {
  override readonly name = 'ProblemError'
  /** What went wrong, for programs: docs/errors.md explains each code. */
  readonly code: ProblemCode
  /** The answer's HTTP status. */
  readonly status: number
  /** The request's id, which the server's log has too. */
  readonly requestId: string
  /** The whole answer: `field`, `limit`, `sqlite_code` and so on. */
  readonly problem: Problem

  constructor(problem: Problem) {
    super(problem.detail)
    this.code = problem.code
    this.status = problem.status
    this.requestId = problem.request_id
    this.problem = problem
  }
}

/** True for a {@link ProblemError}, and if a code is given, only for one with that code. */
export function isProblem(error: unknown, code?: ProblemCode): error is ProblemError {
  return error instanceof ProblemError && (code === undefined || error.code === code)
}

/** The server answered with a redirect. It was not followed: the API key, and what was sent, are for the server at `baseUrl` alone. */
export class Redirected extends TypeError {
  override readonly name = 'Redirected'
  /** Where it leads; null where a browser hides it. */
  readonly location: string | null

  constructor(baseUrl: string, location: string | null) {
    const where = location === null ? '' : ` to ${location}`
    super(`${baseUrl} redirects${where}. The key is not sent there: use the URL of the server itself.`)
    this.location = location
  }
}
