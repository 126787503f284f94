import type { Route } from '../routes/routes.ts'
import type { Action } from './action.ts'
import type { RouteScope } from './route-scopes.ts'

/** A path that exists, whatever the method. */
export interface Resource {
  /** The route's path, with its `{…}`: for logs, where a real path could show a tenant's key. */
  readonly path: string
  readonly parts: readonly Part[]
  /** Its first segment for `{…}` is a cell. */
  readonly isOfCell: boolean
  /** By method. */
  readonly actions: ReadonlyMap<string, Endpoint>
}

export interface Endpoint {
  readonly action: Action
  /** What a key needs for it. */
  readonly scope: RouteScope
}

export interface Match {
  resource: Resource
  /** The segments that stand for `{…}`, undecoded, in order. */
  segments: string[]
}

/** A fixed segment, or undefined for any. */
type Part = string | undefined

/** Finds a path's resource. Paths are compared as they were sent: nothing is decoded, and nothing normalised. */
export class Router {
  /** By the number of segments, so that a request is compared with few routes. */
  readonly #byLength = new Map<number, Resource[]>()
  /** Segments of the longest path. A path can have thousands. */
  readonly #longest: number

  constructor(routes: readonly Route[]) {
    for (const path of new Set(routes.map((route) => route[1]))) {
      const parts = path.split('/').map((part) => (part.startsWith('{') ? undefined : part))
      const actions = new Map(
        routes
          .filter((route) => route[1] === path)
          .flatMap(([method, , action, scope]) => methodsOf(method).map((each) => [each, { action, scope }])),
      )
      const sameLength = this.#byLength.get(parts.length) ?? []
      this.#byLength.set(parts.length, [
        ...sameLength,
        { path, parts, actions, isOfCell: path.includes('/databases/{id}') },
      ])
    }
    this.#longest = Math.max(...this.#byLength.keys())
  }

  match(path: string): Match | undefined {
    const found = path.split('/', this.#longest + 1)
    const candidates = this.#byLength.get(found.length)
    if (candidates === undefined) return undefined
    for (const resource of candidates) {
      const segments = segmentsOf(found, resource.parts)
      if (segments !== undefined) return { resource, segments }
    }
    return undefined
  }
}

/** HEAD is answered as GET, and the server that carries the answer leaves out the body. */
function methodsOf(method: string): string[] {
  return method === 'GET' ? ['GET', 'HEAD'] : [method]
}

/** The segments for the `{…}` of a path; undefined if the rest differs. A loop, because every request comes through here. */
function segmentsOf(found: readonly string[], parts: readonly Part[]): string[] | undefined {
  const segments: string[] = []
  for (let i = 0; i < parts.length; i++) {
    const part = parts[i]
    if (part === undefined) segments.push(found[i] as string)
    else if (part !== found[i]) return undefined
  }
  return segments
}
