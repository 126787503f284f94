import type { CallOptions } from '../../object-store/object-store.ts'
import { parseNote, parseVersion } from '../object-keys.ts'
import type { StoredVersion } from '../stored-manifest.ts'
import type { VersionIndex } from '../version-index.ts'
import type { NoteKeys } from './retention-notes.ts'

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
