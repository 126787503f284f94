import type { CellChange, ChangeFilter, ResetReason, WatchOptions } from './cell-change.ts'
import { type ChangeWindow, idOf, type Position, positionOf } from './change-window.ts'

export interface OpenWindow {
  window: ChangeWindow
  /** Nobody reads it here any more. */
  release(): void
}

/**
 * The changes of one cell for one reader. The watch begins with the first {@link next}, or with {@link open}. It ends with
 * `return()`, which is what `break` calls, with the signal, and when the cell is deleted or the store is closed.
 */
export class ChangeStream implements AsyncIterableIterator<CellChange, undefined> {
  /** Called once if the reader falls so far behind that commits it has not read are dropped. */
  onTooSlow: (() => void) | undefined
  readonly #openWindow: () => OpenWindow
  readonly #filter: ChangeFilter
  readonly #options: WatchOptions
  #opened: OpenWindow | undefined
  #position: Position | undefined
  #isOver = false
  #wake: (() => void) | undefined

  /** @internal */
  constructor(openWindow: () => OpenWindow, filter: ChangeFilter, options: WatchOptions) {
    this.#openWindow = openWindow
    this.#filter = filter
    this.#options = options
  }

  /** Begins the watch: no commit from here on is missed. @throws what ends the watch */
  open(): void {
    if (this.#opened !== undefined || this.#isOver) return
    const opened = this.#openWindow()
    this.#opened = opened
    const { lastEventId } = this.#options
    const asked = lastEventId === undefined ? undefined : positionOf(lastEventId)
    if (asked !== undefined && opened.window.holds(asked)) this.#position = asked
    opened.window.dropped.add(this.#noteDropped)
    this.#options.signal?.addEventListener('abort', this.#wakeUp, { once: true })
  }

  /** Of the last change that the reader has passed, told or not; undefined before the first. */
  get lastEventId(): string | undefined {
    return this.#position && idOf(this.#position)
  }

  /** @throws the signal's reason; `cell_not_found` if the cell is deleted, `store_closed`, `taken_over` */
  async next(): Promise<IteratorResult<CellChange, undefined>> {
    try {
      for (;;) {
        if (this.#isOver) return { done: true, value: undefined }
        this.#options.signal?.throwIfAborted()
        this.open()
        const change = this.#read()
        if (change !== undefined) return { done: false, value: change }
        await this.#untilChanged()
      }
    } catch (error) {
      this.#end()
      throw error
    }
  }

  /** The next change if there is one already. @internal */
  nextNow(): CellChange | undefined {
    const isReadable = this.#opened !== undefined && this.#opened.window.ended === undefined
    return isReadable ? this.#read() : undefined
  }

  /** Ends the watch. */
  async return(): Promise<IteratorResult<CellChange, undefined>> {
    this.#end()
    return { done: true, value: undefined }
  }

  /** For `for await`. */
  [Symbol.asyncIterator](): this {
    return this
  }

  /** Ends the watch, for `await using`. */
  async [Symbol.asyncDispose](): Promise<void> {
    this.#end()
  }

  #read(): CellChange | undefined {
    const { window } = this.#opened as OpenWindow
    if (window.ended !== undefined) throw window.ended
    if (this.#position === undefined) {
      const { lastEventId } = this.#options
      return this.#reset(window.end, lastEventId === undefined ? 'start' : 'unknown_id')
    }
    if (this.#position.epoch !== window.epoch) return this.#reset(window.beginning, window.reason)
    for (;;) {
      if (!window.holds(this.#position)) return this.#reset(window.end, 'too_slow')
      const changes = window.after(this.#position)
      if (changes === undefined) return undefined
      this.#position = { ...this.#position, commits: this.#position.commits + 1 }
      const told = this.#filter(changes)
      if (told !== undefined) return { type: 'commit', id: idOf(this.#position), ...told }
    }
  }

  #reset(position: Position, reason: ResetReason): CellChange {
    this.#position = position
    return { type: 'reset', id: idOf(position), reason }
  }

  #untilChanged(): Promise<void> {
    const { window } = this.#opened as OpenWindow
    return new Promise((resolve) => {
      this.#wake = () => {
        this.#wake = undefined
        window.waiting.delete(this.#wakeUp)
        resolve()
      }
      window.waiting.add(this.#wakeUp)
    })
  }

  readonly #wakeUp = (): void => this.#wake?.()

  readonly #noteDropped = (): void => {
    const position = this.#position
    const { window } = this.#opened as OpenWindow
    if (position === undefined || position.epoch !== window.epoch || window.holds(position)) return
    this.onTooSlow?.()
  }

  #end(): void {
    this.#isOver = true
    this.#options.signal?.removeEventListener('abort', this.#wakeUp)
    const opened = this.#opened
    this.#opened = undefined
    opened?.window.dropped.delete(this.#noteDropped)
    this.#wakeUp()
    opened?.release()
  }
}
