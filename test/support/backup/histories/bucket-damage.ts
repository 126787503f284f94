import fs from 'node:fs'
import path from 'node:path'
import type { Random } from '../../random.ts'
import { filesBelow } from '../../temp-directory.ts'

export type Damage = 'deleted' | 'cut' | 'swapped' | 'flipped'
export const DAMAGES: readonly Damage[] = ['deleted', 'cut', 'swapped', 'flipped']

/** Damages objects in a folder as a disk, a person or a program does it, and knows what is damaged. */
export class BucketDamage {
  /** What is damaged now, with its bytes from before. */
  readonly #whole = new Map<string, Buffer>()
  /** Keys that were ever damaged: a store may remember that. */
  readonly #ever = new Set<string>()
  readonly #root: string
  readonly #random: Random

  constructor(root: string, random: Random) {
    this.#root = root
    this.#random = random
  }

  keys(prefix = ''): string[] {
    const folder = path.join(this.#root, prefix)
    if (!fs.existsSync(folder)) return []
    return filesBelow(folder)
      .filter((file) => !file.startsWith('.cellstore'))
      .map((file) => path.posix.join(prefix, file))
  }

  has(key: string): boolean {
    return fs.existsSync(path.join(this.#root, key))
  }

  read(key: string): Buffer {
    return fs.readFileSync(path.join(this.#root, key))
  }

  isDamaged(key: string): boolean {
    return this.#whole.has(key) || !this.has(key)
  }

  wasDamaged(key: string): boolean {
    return this.#ever.has(key) || !this.has(key)
  }

  /** @param other what takes its place, and whose place it takes */
  damage(key: string, how: Damage, other: string): void {
    const bytes = this.read(key)
    if (how === 'deleted') {
      this.#ever.add(key)
      this.#whole.delete(key)
      fs.rmSync(path.join(this.#root, key))
    } else if (how === 'cut') this.#write(key, bytes.subarray(0, this.#random.below(bytes.length)))
    else if (how === 'flipped') {
      const flipped = Buffer.from(bytes)
      const at = this.#random.below(bytes.length)
      flipped[at] = (flipped[at] as number) ^ (1 << this.#random.below(8))
      this.#write(key, flipped)
    } else {
      this.#write(key, this.read(other))
      this.#write(other, bytes)
    }
  }

  /** Puts every damaged object back as it was; what is deleted stays so. */
  mend(keys: readonly string[] = [...this.#whole.keys()]): void {
    for (const key of keys) {
      const bytes = this.#whole.get(key)
      if (bytes !== undefined && this.has(key)) fs.writeFileSync(path.join(this.#root, key), bytes)
      this.#whole.delete(key)
    }
  }

  #write(key: string, bytes: Buffer): void {
    const before = this.read(key)
    if (before.equals(bytes)) return
    if (!this.#whole.has(key)) this.#whole.set(key, before)
    this.#ever.add(key)
    fs.writeFileSync(path.join(this.#root, key), bytes)
    // By chance it may be as it was.
    if (this.#whole.get(key)?.equals(bytes)) this.#whole.delete(key)
  }
}
