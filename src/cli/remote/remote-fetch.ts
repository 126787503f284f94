import type { Fetch } from '../../client/index.ts'
import { fetchForLong } from '../../client/long-calls.ts'
import { CellError } from '../../errors.ts'

/** The request never left: there was no connection, or none that could be trusted. */
const NOT_SENT =
  /^(ECONNREFUSED|ENOTFOUND|EAI_AGAIN|EHOSTUNREACH|ENETUNREACH|UND_ERR_CONNECT_TIMEOUT|EPROTO|ERR_(TLS|SSL)_\w+|CERT_\w+|\w+_CERT(_\w+)?|UNABLE_TO_\w+|\w*SELF_SIGNED\w*)$/

/**
 * `fetch` with errors that say what happened and what to do.
 *
 * @param seen gets the headers of each answer
 * @throws `node_unreachable`, and as an aborted signal does
 */
export function remoteFetch(baseUrl: string, seen: (headers: Headers) => void): Fetch {
  return async (url, init) => {
    const answer = await fetchForLong(url, init).catch((error: unknown) => {
      throw init.signal?.aborted ? error : unreachable(baseUrl, error)
    })
    seen(answer.headers)
    return answer
  }
}

function unreachable(baseUrl: string, error: unknown): CellError {
  const cause = error instanceof Error && error.cause instanceof Error ? error.cause : error
  const code = String(Object(cause).code ?? '')
  const message =
    NOT_SENT.test(code) || isBadPort(cause)
      ? `The node at ${baseUrl} cannot be reached. Nothing was changed.`
      : `The connection to ${baseUrl} broke before the answer. The command may have run or not: check, then try again.`
  return new CellError('node_unreachable', message, { cause: describable(cause, code) })
}

/** `fetch` connects to no port that belongs to another protocol, such as 6000. */
function isBadPort(cause: unknown): boolean {
  return cause instanceof Error && cause.message === 'bad port'
}

/** If each of several addresses refused, the error has no message, only a code. */
function describable(cause: unknown, code: string): unknown {
  return cause instanceof Error && cause.message === '' ? new Error(code, { cause }) : cause
}
