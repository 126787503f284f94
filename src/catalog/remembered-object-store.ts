import fs from 'node:fs'
import { KeyedQueue } from '../base/fairness/keyed-queue.ts'
import { replaceFileDurably } from '../base/files/durable-files.ts'
import type { StorePaths } from '../base/files/store-paths.ts'

/** What one start of a directory's owner has written into a prefix about itself. */
export interface RememberedStart {
  epoch: number
  /** Of the start: random. */
  instance: string
  /** Of the newest record that it wrote, or was about to write; 0 is the fence. */
  sequence: number
  /** Of the newest record that the object store surely has had; absent as long as that is not known of the fence. */
  stored?: number | undefined
}

/** So many starts are remembered: a fence that was put earlier than that, and has not come, never will. */
const STARTS_MAX = 16

interface Content {
  url: string
  starts: Record<string, readonly RememberedStart[]>
}

/** Earlier versions remembered the last start, and those before it that had tried for the same epoch. */
interface EarlierContent {
  url: string
  positions: Record<string, RememberedStart & { inDoubt?: string[] }>
}

/**
 * Which object store a directory's backups go to, and what the last starts wrote about themselves in each that they used. It is
 * on disk before it is true: so a directory whose object store says more than this was put back from an older copy.
 */
export class RememberedObjectStore {
  readonly #file: string
  readonly #turns = new KeyedQueue()
  #content: Content | undefined

  private constructor(file: string, content: Content | undefined) {
    this.#file = file
    this.#content = content
  }

  static read({ objectStore: file }: StorePaths): RememberedObjectStore {
    return new RememberedObjectStore(file, readContent(file))
  }

  /** Without credentials. Undefined if the directory never had one. */
  get url(): string | undefined {
    return this.#content?.url
  }

  /** The newest one last. */
  starts(url: string): readonly RememberedStart[] {
    return this.#content?.starts[url] ?? []
  }

  /** In whichever object store: one may have got another URL. */
  get allStarts(): RememberedStart[] {
    return Object.values(this.#content?.starts ?? {}).flat()
  }

  /** From here on, backups go to `url`. The starts replace what is remembered of them there, or are new. */
  async write(url: string, ...starts: readonly RememberedStart[]): Promise<void> {
    const isReplaced = ({ epoch, instance }: RememberedStart) =>
      starts.some((each) => each.epoch === epoch && each.instance === instance)
    const all = [...this.starts(url).filter((each) => !isReplaced(each)), ...starts]
    const content = { url, starts: { ...this.#content?.starts, [url]: newestOf(all) } }
    this.#content = content
    const bytes = Buffer.from(`${JSON.stringify(content)}\n`)
    await this.#turns.run(this.#file, () => replaceFileDurably(this.#file, bytes))
  }
}

/** The last one whose fence was stored stays, however many have failed since. */
function newestOf(starts: readonly RememberedStart[]): RememberedStart[] {
  const stored = starts.findLast((each) => each.stored !== undefined)
  return starts.filter((each, i) => i >= starts.length - STARTS_MAX || each === stored)
}

/** A file that is damaged says nothing, as one that is missing. */
function readContent(file: string): Content | undefined {
  let text: string
  try {
    text = fs.readFileSync(file, 'utf8')
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return undefined
    throw error
  }
  try {
    const content = JSON.parse(text) as Content | EarlierContent
    if (typeof content.url !== 'string') return undefined
    if ('starts' in content) return content
    const starts = Object.entries(content.positions).map(([url, each]) => [url, startsOf(each)])
    return { url: content.url, starts: Object.fromEntries(starts) }
  } catch {
    return undefined
  }
}

function startsOf({ inDoubt = [], ...last }: EarlierContent['positions'][string]): RememberedStart[] {
  const stored = last.sequence > 0 ? 0 : undefined
  return [...inDoubt.map((instance) => ({ epoch: last.epoch, instance, sequence: 0 })), { ...last, stored }]
}
