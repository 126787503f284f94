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
