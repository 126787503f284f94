/**
 * @param hasOwnFetch the caller's fetch may know what a path belongs to
 * @throws `TypeError` for a URL that no request can have
 */
export function checkBaseUrl(baseUrl: string, hasOwnFetch: boolean): void {
  if (hasOwnFetch && typeof baseUrl === 'string' && baseUrl.startsWith('/')) return
  let protocol: string
  try {
    // In a browser a path belongs to the page.
    protocol = new URL(new Request(baseUrl).url).protocol
  } catch (cause) {
    throw notHttp(cause)
  }
  if (!/^https?:$/.test(protocol)) throw notHttp()
}

function notHttp(cause?: unknown): TypeError {
  return new TypeError('baseUrl must begin with http:// or https://, and have no user and no password.', {
    cause,
  })
}
