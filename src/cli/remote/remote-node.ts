import fs from 'node:fs'
import { isIP } from 'node:net'
import { parseApiKey } from '../../auth/api-key.ts'
import { isLoopback } from '../../base/machine/loopback.ts'
import { CellError } from '../../errors.ts'

/** The flags of commands that work on a remote node too. */
export interface RemoteFlags {
  url?: string
  keyFile?: string
  allowHttp?: true
}

/** A node that is reached over HTTP, and the key of an account on it. */
export interface RemoteNode {
  /** Without `/v1`. */
  baseUrl: string
  apiKey: string
}

/** Where the key comes from. It is never a flag's value: every user of the machine can read command lines. */
export const KEY_VARIABLE = 'CELLSTORE_KEY'

/**
 * The node that the flags name.
 *
 * @throws `invalid_setting` for a URL that cannot be right, for a key that is missing or none, and for plain HTTP to another
 * machine, unless that is allowed; what reading the key's file throws
 */
export function remoteNodeOf(
  url: string,
  { keyFile, allowHttp }: RemoteFlags,
  environment: Readonly<Record<string, string | undefined>>,
): RemoteNode {
  const baseUrl = checkUrl(url, allowHttp === true)
  const [key, source] =
    keyFile === undefined
      ? [environment[KEY_VARIABLE], KEY_VARIABLE]
      : [fs.readFileSync(keyFile, 'utf8').trim(), keyFile]
  if (key === undefined) {
    throw invalid(
      `The node at ${baseUrl} asks for an API key: set ${KEY_VARIABLE}, or use --key-file.`,
      KEY_VARIABLE,
    )
  }
  const apiKey = parseApiKey(key)
  if (apiKey !== undefined) return { baseUrl, apiKey }
  throw invalid(
    `What ${source} holds is no API key. A key starts with cell_sk_ and has 57 characters.`,
    source,
  )
}

function checkUrl(text: string, allowHttp: boolean): string {
  const url = URL.parse(text)
  if (url === null || (url.protocol !== 'https:' && url.protocol !== 'http:'))
    throw invalid('A node has a URL such as https://cells.example.com.')
  if (url.username !== '' || url.password !== '')
    throw invalid(`The URL of a node holds no password: the key comes from ${KEY_VARIABLE} or --key-file.`)
  if (url.search !== '' || url.hash !== '') throw invalid('The URL of a node has no ? and no #.')
  const baseUrl = url.href.replace(/\/+$/, '')
  if (baseUrl.endsWith('/v1')) throw invalid('Leave /v1 out of the URL: commands add it.')
  if (url.protocol === 'http:' && !allowHttp && !isThisMachine(url.hostname)) {
    throw invalid(
      `Over plain http, the key and the data could be read on the way to ${url.host}. Use https, or --allow-http in a network that you trust.`,
    )
  }
  return baseUrl
}

function isThisMachine(hostname: string): boolean {
  if (hostname === 'localhost') return true
  const address = hostname.replace(/^\[|\]$/g, '')
  return isIP(address) !== 0 && isLoopback(address)
}

function invalid(message: string, field = 'url'): CellError {
  return new CellError('invalid_setting', message, { field })
}
