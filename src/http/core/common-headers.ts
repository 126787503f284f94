import type { HttpResponse } from './http-message.ts'

/** Adds the headers that every response has. @returns the same response */
export function withCommonHeaders(response: HttpResponse, requestId: string): HttpResponse {
  response.headers['Cache-Control'] = 'no-store'
  response.headers['X-Content-Type-Options'] = 'nosniff'
  response.headers['X-Request-Id'] = requestId
  return response
}
