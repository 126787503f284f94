/** A request as a test sends it: nothing is added on the way. */
export interface RawRequest {
  method: string
  path: string
  headers: Record<string, string>
  body?: string | Uint8Array
}

export interface RawReply {
  status: number
  headers: Headers
  text: string
}
