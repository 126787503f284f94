/** As much of an OpenAPI document as a client needs. */
interface Document {
  servers: { url: string }[]
  paths: Record<string, Record<string, Operation>>
  components: { securitySchemes: Record<string, { type: string; in?: string; name?: string }> }
}

interface Operation {
  operationId: string
  security?: object[]
  parameters?: { name: string; in: string; required?: boolean }[]
  requestBody?: { content: Record<string, unknown> }
  responses: Record<string, { content?: Record<string, unknown> }>
}

/** A client that knows nothing but an OpenAPI document: not this project's code, nor that the document is this project's. */
export class DocumentClient {
  readonly #address: string
  readonly #document: Document
  readonly #key: string

  private constructor(address: string, document: Document, key: string) {
    this.#address = address
    this.#document = document
    this.#key = key
  }

  static async read(address: string, key: string): Promise<DocumentClient> {
    const response = await fetch(`${address}/openapi.json`)
    return new DocumentClient(address, (await response.json()) as Document, key)
  }

  /** Every argument goes where a parameter of its name is; the rest are the body. */
  async call(operationId: string, args: Record<string, unknown> = {}): Promise<Record<string, unknown>> {
    const { method, path, operation } = this.#find(operationId)
    const rest = { ...args }
    const query = new URLSearchParams()
    let filled = path
    for (const { name, in: place, required } of operation.parameters ?? []) {
      const value = rest[name]
      delete rest[name]
      if (value === undefined && required) throw new Error(`${operationId} needs ${name}.`)
      if (value === undefined) continue
      if (place === 'path') filled = filled.replace(`{${name}}`, encodeURIComponent(String(value)))
      if (place === 'query') query.set(name, String(value))
    }
    const headers = new Headers(operation.security?.length === 0 ? {} : this.#credentials())
    const [type] = Object.keys(operation.requestBody?.content ?? {})
    if (type !== undefined) headers.set('content-type', type)
    const server = this.#document.servers[0]?.url.replace(/\/$/, '') ?? ''
    const response = await fetch(`${this.#address}${server}${filled}?${query}`, {
      method,
      headers,
      ...(type === undefined ? {} : { body: JSON.stringify(rest) }),
    })
    const text = await response.text()
    if (!(response.status in operation.responses) || !response.ok) {
      throw new Error(`${operationId}: ${response.status} ${text}`)
    }
    return JSON.parse(text) as Record<string, unknown>
  }

  #find(operationId: string): { method: string; path: string; operation: Operation } {
    for (const [path, methods] of Object.entries(this.#document.paths)) {
      for (const [method, operation] of Object.entries(methods)) {
        if (operation.operationId === operationId) return { method: method.toUpperCase(), path, operation }
      }
    }
    throw new Error(`The document has no operation ${operationId}.`)
  }

  #credentials(): Record<string, string> {
    const schemes = Object.values(this.#document.components.securitySchemes)
    const scheme = schemes.find((each) => each.type === 'apiKey' && each.in === 'header')
    if (scheme?.name === undefined) throw new Error('The document names no header for the key.')
    return { [scheme.name]: this.#key }
  }
}
