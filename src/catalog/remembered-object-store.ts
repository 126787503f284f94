import fs from 'node:fs'
import { replaceFileDurably } from '../base/durable-files.ts'
import { KeyedQueue } from '../base/keyed-queue.ts'
import type { StorePaths } from '../base/store-paths.ts'

/** What a directory's owner wrote last into a prefix about itself, or was about to write. */
export interface FencePosition {
  epoch: number
  sequence: number
  /** Of the start that wrote it. */
  instance: string
  /** Of earlier starts that ended before they knew whether their fence of the same epoch was stored: it may still come. */
  inDoubt?: string[] | undefined
}

interface Content {
  url: string
  positions: Record<string, FencePosition>
}

/**
 * Which object store a directory's backups go to, and how far its owners came in each that they used. It is on disk before
 * it is true: so a directory whose object store says more than this was put back from an older copy.
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

  position(url: string): FencePosition | undefined {
    return this.#content?.positions[url]
  }

  /** Whether an owner of the directory wrote a record, in whichever object store: one may have got another URL. */
  wrote(instance: string, sequence: number): boolean {
    const positions = Object.values(this.#content?.positions ?? {})
    return positions.some(
      (each) =>
        (each.instance === instance && sequence <= each.sequence) ||
        // A start in doubt wrote nothing after its fence.
        (sequence === 0 && each.inDoubt?.includes(instance)),
    )
  }

  /** From here on, backups go to `url`. */
  async write(url: string, position: FencePosition): Promise<void> {
    const content = { url, positions: { ...this.#content?.positions, [url]: position } }
    this.#content = content
    const bytes = Buffer.from(`${JSON.stringify(content)}\n`)
    await this.#turns.run(this.#file, () => replaceFileDurably(this.#file, bytes))
  }
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
    const { url, positions } = JSON.parse(text) as Content
    return typeof url === 'string' && typeof positions === 'object' ? { url, positions } : undefined
  } catch {
    return undefined
  }
}
