import type { JsonText } from '../../service/operations.ts'

/**
 * The OpenAPI document as it is served. `npm run openapi` makes it from the schemas: to make it here would hold up the
 * node for too long. It is loaded when it is first asked for, and then kept as bytes, which all answers share.
 *
 * @returns gives the document for clients who find the interface below `mount`, such as `/api`
 */
export function servedDocument(): (mount: string) => Promise<JsonText> {
  let last: { mount: string; bytes: Uint8Array } | undefined
  return async (mount) => {
    if (last?.mount === mount) return last.bytes
    const { default: document } = await import('./document.generated.json', { with: { type: 'json' } })
    const { openapi, info, ...rest } = document
    // The document's paths begin with a slash.
    const servers = [{ url: mount === '' ? '/' : mount }]
    last = { mount, bytes: Buffer.from(JSON.stringify({ openapi, info, servers, ...rest })) }
    return last.bytes
  }
}
