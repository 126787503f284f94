import type { PutAttempt } from './create-only-puts.ts'
import type { RemoteRequests } from './remote-object-store.ts'

/** What is known of an upload in parts, so that nothing of it stays behind when it is given up. */
export class MultipartUpload {
  #id: string | undefined
  /** True where a request to begin was repeated, or its answer lost: then there may be uploads of unknown id. */
  #mayHaveMore = false

  /** A request to begin is about to be sent: until its answer is there, nobody knows whether there is an upload. */
  asked(): void {
    this.#mayHaveMore = true
  }

  answered(id: string | undefined, attempts: number | undefined): void {
    this.#id = id
    this.#mayHaveMore = attempts !== 1
  }

  /** What was completed is no upload any more. */
  completed(): void {
    this.#id = undefined
  }

  /** Ends the uploads that were begun; what can't be ended now is left to `sweepUploads`. */
  async end(key: string, requests: RemoteRequests, attempt: PutAttempt): Promise<void> {
    if (this.#id === undefined && !this.#mayHaveMore) return
    using call = attempt.allowance('clean-up')
    try {
      if (this.#id !== undefined) await requests.endUpload(key, this.#id, call)
      let next: string | undefined
      for (let more = this.#mayHaveMore; more; more = next !== undefined) {
        // Puts of one key take turns, so an upload of just this key is one whose begin was repeated or not answered.
        const page = await requests.uploads(key, next, call)
        for (const upload of page.items) {
          if (upload.key === key) await requests.endUpload(key, upload.id, call)
        }
        next = page.next
      }
    } catch {
      // The failure that led here says more.
    }
  }
}
