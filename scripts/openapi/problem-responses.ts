import type { ZodOpenApiResponseObject } from 'zod-openapi'
import type { CellErrorCode } from '../../src/errors.ts'
import { STATUS_OF_CODE } from '../../src/http/core/problem.ts'
import type { Operation } from './operation.ts'

export const REQUEST_ID = { 'X-Request-Id': { $ref: '#/components/headers/RequestId' } }
const RETRY_AFTER = { 'Retry-After': { $ref: '#/components/headers/RetryAfter' } }

/** The responses of refused and failed requests. Routes that give the same codes with a status share one. */
export class ProblemResponses {
  readonly components: Record<string, ZodOpenApiResponseObject> = {}
  readonly #names = new Map<string, string>()

  /** For each status a response with the codes that the operation gives with it, and no other. */
  of(
    { id, tag }: Pick<Operation, 'id' | 'tag'>,
    codes: readonly CellErrorCode[],
  ): Record<string, { $ref: string }> {
    const byStatus = Map.groupBy(codes, (code) => STATUS_OF_CODE[code])
    const responses = [...byStatus].map(([status, some]) => {
      const isHrana = tag === 'Hrana'
      const name = isHrana ? `hrana${status}` : this.#nameOf(some, `${id}${status}`)
      this.components[name] ??= isHrana ? hranaResponseOf(status) : responseOf(status, some)
      return [status, { $ref: `#/components/responses/${name}` }]
    })
    return Object.fromEntries(responses)
  }

  /** A response of several codes is called after the first operation that has it. */
  #nameOf(codes: readonly CellErrorCode[], several: string): string {
    const [only, ...others] = codes
    if (only !== undefined && others.length === 0) return only
    const known = this.#names.get(codes.join()) ?? several
    this.#names.set(codes.join(), known)
    return known
  }
}

/** Its codes are those of SQLite and of the protocol, and the others in capitals. */
function hranaResponseOf(status: number): ZodOpenApiResponseObject {
  const waits = status === 429 || status === 503
  return {
    description: 'An error, as Hrana writes it.',
    headers: waits ? { ...REQUEST_ID, ...RETRY_AFTER } : REQUEST_ID,
    content: { 'application/json': { schema: { $ref: '#/components/schemas/HranaError' } } },
  }
}

function responseOf(status: number, codes: readonly CellErrorCode[]): ZodOpenApiResponseObject {
  const schema = {
    allOf: [{ $ref: '#/components/schemas/Problem' }],
    properties: { code: { enum: [...codes] } },
  }
  const waits = status === 429 || status === 503
  return {
    description: codes.join(', '),
    headers: waits ? { ...REQUEST_ID, ...RETRY_AFTER } : REQUEST_ID,
    content: { 'application/problem+json': { schema } },
  }
}
