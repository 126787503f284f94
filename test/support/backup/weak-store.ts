import { PassingStore } from './object-store-decorators.ts'

/** An object store that does not honour conditional writes. */
export class WeakStore extends PassingStore {
  async createsOnlyOnce(): Promise<boolean> {
    await this.before('head', '')
    return false
  }
}
