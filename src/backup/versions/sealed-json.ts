import { createHash } from 'node:crypto'

const SEALED = /^(\{.*),"sha256":"([0-9a-f]{64})"\}\s*$/s

/** A small object as JSON that ends with a hash of all before it, so that no changed byte is taken for what was written. */
export function sealJson(content: object): Buffer {
  const json = JSON.stringify(content)
  return Buffer.from(`${json.slice(0, -1)},"sha256":"${hashOf(json)}"}\n`)
}

/** @returns undefined for what is damaged. An object of an earlier cellstore has no hash, and is taken as it is. */
export function openSealed(text: string): unknown {
  const [, start, sha256] = SEALED.exec(text) ?? []
  if (start !== undefined && hashOf(`${start}}`) !== sha256) return undefined
  try {
    const content = JSON.parse(text)
    return start === undefined && Object.hasOwn(Object(content), 'sha256') ? undefined : content
  } catch {
    return undefined
  }
}

function hashOf(json: string): string {
  return createHash('sha256').update(json).digest('hex')
}
