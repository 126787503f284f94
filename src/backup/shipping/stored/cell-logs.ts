import { LruCache } from '../../../base/lru-cache.ts'
import type { Tenure } from '../../../catalog/assignment/assignment.ts'
import type { ManifestHead } from '../../archive/manifest.ts'
import type { CallOptions } from '../../object-store/object-store.ts'
import { logKey, parseVersion } from '../../versions/object-keys.ts'
import { type LogRef, LogRefs } from '../log/log-refs.ts'
import type { LogIndex, MemberBytes } from './log-index.ts'

/** What a restore reads of a log. */
export type ReadableLog = Pick<LogIndex, 'after' | 'manifest' | 'member' | 'storedBytes'>

const ENDED_MAX = 4_096

/** Nothing that is shipped follows the version. */
const NOTHING: ReadableLog = {
  after: async () => LogRefs.none,
  manifest: () => Promise.reject(new Error('There is no log object.')),
  member: async function* () {},
  storedBytes: async () => 0,
}

/**
 * The logs that have what cells committed: each node of a cluster has its own, and a cell that has moved has parts in several. A
 * version says in which one its history is.
 */
export class CellLogs {
  readonly #own: LogIndex
  readonly #open: (prefix: string) => LogIndex
  readonly #opened = new Map<string, LogIndex>()
  /** By prefix and last object. */
  readonly #ended = new LruCache<ReadableLog>(ENDED_MAX)

  /**
   * @param own this node's, whose prefix is `ownPrefix`
   * @param open that of another node; there is none without a cluster
   */
  constructor(own: LogIndex, ownPrefix = '', open: (prefix: string) => LogIndex = () => own) {
    this.#own = own
    this.#open = open
    this.#opened.set(ownPrefix, own)
  }

  /**
   * The log that follows a version, as far as it counts for its cell: what the node of the version has put after the end of its
   * tenure is void (C5).
   *
   * @param tenures of the cell; undefined without a cluster, where all of a log counts
   */
  of({ version, log }: ManifestHead, tenures: readonly Tenure[] | undefined): ReadableLog {
    const prefix = log?.prefix ?? ''
    if (tenures === undefined) return this.#in(prefix)
    const stamp = parseVersion(version)?.time ?? 0
    const isIn = (each: Tenure) =>
      each.prefix === prefix &&
      stamp > each.stampsAfter &&
      stamp <= (each.stampBound ?? Number.POSITIVE_INFINITY)
    const tenure = tenures.findLast(isIn)
    if (tenure === undefined || tenure.lastLog === null) return NOTHING
    const all = this.#in(prefix)
    return tenure.lastLog === undefined ? all : this.#upTo(all, prefix, logKey(tenure.lastLog))
  }

  /** This node's own. */
  get own(): LogIndex {
    return this.#own
  }

  #upTo(log: LogIndex, prefix: string, last: string): ReadableLog {
    const known = this.#ended.get(prefix + last) ?? new EndedLog(log, last)
    this.#ended.set(prefix + last, known)
    return known
  }

  #in(prefix: string): LogIndex {
    let log = this.#opened.get(prefix)
    if (log === undefined) {
      log = this.#open(prefix)
      this.#opened.set(prefix, log)
    }
    return log
  }
}

/** A log up to one of its objects. */
class EndedLog implements ReadableLog {
  readonly #log: LogIndex
  readonly #last: string

  constructor(log: LogIndex, last: string) {
    this.#log = log
    this.#last = last
  }

  async after(after: string | null, options?: CallOptions): Promise<LogRefs> {
    const refs = await this.#log.after(after, options)
    return refs.slice(0, refs.firstAfter(this.#last))
  }

  manifest(ref: LogRef) {
    return this.#log.manifest(ref)
  }

  member(ref: LogRef, bytes: MemberBytes, options?: CallOptions) {
    return this.#log.member(ref, bytes, options)
  }

  storedBytes(ref: LogRef, bytes: MemberBytes) {
    return this.#log.storedBytes(ref, bytes)
  }
}
