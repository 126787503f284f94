import { createHash } from 'node:crypto'

const SEALED = /^(\{.*),"checksum":"([0-9a-f]{64})"\}\s*$/s

/** A small object as JSON that ends with a checksum of all before it, so that no changed byte is taken for what was written. */
export function sealJson(content: object): Buffer {
  const json = JSON.stringify(content)
  return Buffer.from(`${json.slice(0, -1)},"checksum":"${hashOf(json)}"}\n`)
}

/** @returns undefined for what is damaged. An object of an earlier cellstore has no checksum, and is taken as it is. */
export function openSealed(text: string): unknown {
  const [, start, checksum] = SEALED.exec(text) ?? []
  if (start !== undefined && hashOf(`${start}}`) !== checksum) return undefined
  try {
    const content = JSON.parse(text)
    return start === undefined && Object.hasOwn(Object(content), 'checksum') ? undefined : content
  } catch {
    return undefined
  }
}

function hashOf(json: string): string {
  return createHash('sha256').update(json).digest('hex')
}
