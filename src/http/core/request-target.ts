import type { Kind } from '../../base/options/option-shapes.ts'

export const BASE_PATH: Kind<string> = {
  what: 'empty, or start with a slash and not end with one, like "/api"',
  fits: (value) => typeof value === 'string' && /^(?:(?:\/[^/?#\s]+)+)?$/.test(value),
}

/** A request target in its parts. */
export interface Target {
  /** Below the base path; empty if it is not below it, which no route matches. */
  path: string
  query: string
}

/**
 * Splits a request target, of origin form (`/a?b`) or absolute form (`http://host/a?b`). By hand: a URL parser would
 * normalise the path, and a key that it holds.
 */
export function splitTarget(target: string, basePath: string): Target {
  const start = target.startsWith('/') ? 0 : pathStart(target)
  const mark = target.indexOf('?', start)
  const path = mark === -1 ? target.slice(start) : target.slice(start, mark)
  const query = mark === -1 ? '' : target.slice(mark + 1)
  if (basePath === '') return { path, query }
  return { path: path.startsWith(`${basePath}/`) ? path.slice(basePath.length) : '', query }
}

function pathStart(target: string): number {
  const authority = target.indexOf('://')
  const slash = authority === -1 ? -1 : target.indexOf('/', authority + 3)
  return slash === -1 ? target.length : slash
}
