import fs from 'node:fs'
import { replaceFileDurably } from '../base/durable-files.ts'
import { KeyedQueue } from '../base/keyed-queue.ts'
import type { StorePaths } from '../base/store-paths.ts'

/** What a directory's owner wrote last into the prefix about itself, or was about to write. */
export interface FencePosition {
  epoch: number
  sequence: number
  /** Of the start that wrote it. */
  instance: string
}

interface Content {
  /** Without credentials. */
  url: string
  position: FencePosition | undefined
}

/**
 * Which object store a directory's backups go to, and how far its owner came there. It is on disk before it is true: so
 * a directory whose object store says more than this was put back from an older copy.
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

  /** Undefined if the directory never had one. */
  get url(): string | undefined {
    return this.#content?.url
  }

  /** In the object store that {@link url} names. */
  get position(): FencePosition | undefined {
    return this.#content?.position
  }

  /** @param position undefined if nothing was written there yet */
  async write(url: string, position: FencePosition | undefined): Promise<void> {
    const content = { url, position }
    this.#content = content
    await this.#turns.run(this.#file, () =>
      replaceFileDurably(this.#file, Buffer.from(`${JSON.stringify(content)}\n`)),
    )
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
    const { url, position } = JSON.parse(text) as Content
    return typeof url === 'string' ? { url, position } : undefined
  } catch {
    return undefined
  }
}
