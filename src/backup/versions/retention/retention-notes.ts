import { text } from 'node:stream/consumers'
import { CellError, isCellError } from '../../../errors.ts'
import { bufferBody, type CallOptions, type ObjectStore } from '../../object-store/object-store.ts'
import { openSealed, sealJson } from '../identity/sealed-json.ts'
import { checkVersion, type NoteKind, noteKey, parseNote, parseVersion } from '../object-keys.ts'
import type { StoredVersion } from '../stored-manifest.ts'
import type { VersionIndex } from '../version-index.ts'

/** More than any note that we write. */
const NOTE_BYTES_MAX = 16 * 1_048_576
const ATTEMPTS = 5

/** When each version was marked, in epoch milliseconds. */
export type Marks = ReadonlyMap<string, number>

/** The version that was last restored and found whole. */
export interface Proof {
  version: string
  /** Epoch milliseconds. */
  provenAt: number
}

/** The notes of one cell, as a listing shows them: the key of each, by its stamp. */
interface NoteKeys {
  /** Keys of pins. */
  pins: readonly string[]
  /** Oldest first; the newest counts. */
  marks: readonly string[]
  proven: readonly string[]
  plan: readonly string[]
}

/**
 * What retention has to remember of a cell, as small objects next to its versions: so it outlives this machine and the
 * catalog. Objects are never replaced: a change is a new one, and then the old ones go.
 */
export class RetentionNotes {
  readonly #store: ObjectStore

  constructor(store: ObjectStore) {
    this.#store = store
  }

  async readMarks({ marks }: NoteKeys, options: CallOptions): Promise<Marks> {
    const note = await this.#read(marks.at(-1), options)
    return new Map(Object.entries((note?.['marks'] ?? {}) as Record<string, unknown>).filter(isMark))
  }

  async readProof({ proven }: NoteKeys, options: CallOptions): Promise<Proof | undefined> {
    const note = await this.#read(proven.at(-1), options)
    const { version, proven_at } = note ?? {}
    if (typeof version !== 'string' || typeof proven_at !== 'number') return undefined
    return { version, provenAt: proven_at }
  }

  /** The cell's own plan, as it was written. */
  async readPlan({ plan }: NoteKeys, options: CallOptions): Promise<string | undefined> {
    const note = await this.#read(plan.at(-1), options)
    return typeof note?.['plan'] === 'string' ? note['plan'] : undefined
  }

  async writeMarks(
    cellId: string,
    keys: NoteKeys,
    marks: Marks,
    now: number,
    options: CallOptions,
  ): Promise<void> {
    const content = { marks: Object.fromEntries(marks) }
    await this.#replace(cellId, 'marks', keys.marks, marks.size === 0 ? undefined : content, now, options)
  }

  async writeProof(cellId: string, keys: NoteKeys, proof: Proof, options: CallOptions): Promise<void> {
    const { version, provenAt } = proof
    const content = { version, proven_at: provenAt }
    await this.#replace(cellId, 'proven', keys.proven, content, provenAt, options)
  }

  /** @param plan undefined: the cell has none of its own */
  async writePlan(
    cellId: string,
    keys: NoteKeys,
    plan: string | undefined,
    now: number,
    options: CallOptions,
  ): Promise<void> {
    await this.#replace(cellId, 'plan', keys.plan, plan === undefined ? undefined : { plan }, now, options)
  }

  /** @throws `invalid_version`, `backup_not_found` for a version of another cell */
  async pin(cellId: string, version: string, now: number, options: CallOptions): Promise<void> {
    try {
      await this.#put(pinOf(cellId, version), { version, pinned_at: now }, options)
    } catch (error) {
      if (!isCellError(error, 'object_exists')) throw error
    }
  }

  /** @throws as {@link pin} */
  async unpin(cellId: string, version: string, options: CallOptions): Promise<void> {
    await this.#store.delete(pinOf(cellId, version), options)
  }

  /** The new one first: if this ends in between, the newest counts. */
  async #replace(
    cellId: string,
    kind: NoteKind,
    before: readonly string[],
    content: object | undefined,
    now: number,
    options: CallOptions,
  ): Promise<void> {
    if (content !== undefined) await this.#putAfter(cellId, kind, before, content, now, options)
    // Oldest first: what is left of an interrupted removal must not count again.
    for (const key of before) await this.#store.delete(key, options)
  }

  /** With a stamp later than those before it, even if the clock has stepped back. */
  async #putAfter(
    cellId: string,
    kind: NoteKind,
    before: readonly string[],
    content: object,
    now: number,
    options: CallOptions,
  ): Promise<void> {
    let time = Math.max(now, ...before.map((key) => stampOf(key) + 1))
    for (let attempt = 1; ; attempt++, time++) {
      try {
        return await this.#put(noteKey(cellId, kind, time), content, options)
      } catch (error) {
        if (!isCellError(error, 'object_exists') || attempt === ATTEMPTS) throw error
      }
    }
  }

  async #put(key: string, content: object, options: CallOptions): Promise<void> {
    await this.#store.put(key, bufferBody(sealJson({ format: 1, key, ...content })), options)
  }

  /** @throws `backup_corrupt` for one that cannot be read: retention then removes nothing */
  async #read(key: string | undefined, options: CallOptions): Promise<Record<string, unknown> | undefined> {
    if (key === undefined) return undefined
    const content = await this.#store.get(key, { ...options, range: { offset: 0, length: NOTE_BYTES_MAX } })
    if (content === undefined) return undefined
    const note = openSealed(await text(content.body)) as Record<string, unknown> | undefined
    // Another cell's note in its place would be a sound one. An earlier cellstore wrote no key.
    if (note?.['format'] === 1 && (note['key'] ?? key) === key) return note
    throw new CellError(
      'backup_corrupt',
      `${key} is damaged, or no note that this version of cellstore can read. Nothing of the cell is removed until it is mended or removed.`,
      {
        member: key,
      },
    )
  }
}

/** The pin of a version has its stamp, so that a listing shows what is pinned. */
export function pinOf(cellId: string, version: string): string {
  checkVersion(version, cellId)
  return noteKey(cellId, 'pin', stampOf(version))
}

function isMark(entry: [string, unknown]): entry is [string, number] {
  return typeof entry[1] === 'number'
}

function stampOf(key: string): number {
  return parseNote(key)?.time ?? parseVersion(key)?.time ?? 0
}

/** What one listing of a cell shows to retention. */
export interface NotedVersions {
  /** Newest first. */
  versions: StoredVersion[]
  notes: NoteKeys
  /** Versions that the cell was restored to after its newest backup. */
  restoredTo: string[]
}

/** Lists the versions of a cell, and the notes next to them. */
export async function listNoted(
  index: VersionIndex,
  cellId: string,
  { signal }: CallOptions,
): Promise<NotedVersions> {
  const keys = { pin: [] as string[], marks: [] as string[], proven: [] as string[], plan: [] as string[] }
  const onOther = (key: string) => {
    const note = parseNote(key)
    if (note !== undefined) keys[note.kind].push(key)
  }
  const { versions, marks } = await index.contents(cellId, { signal, onOther })
  const { pin: pins, ...others } = keys
  const newest = parseVersion(versions[0]?.version ?? '')?.time ?? 0
  const restoredTo = marks.filter(({ time }) => time > newest).map(({ version }) => version)
  return { versions, notes: { pins, ...others }, restoredTo }
}
