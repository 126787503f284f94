import type { CallOptions, ObjectStore } from '../object-store/object-store.ts'
import type { StoredVersion } from './stored-manifest.ts'
import { listingOf, type VersionIndex } from './version-index.ts'

/**
 * Removes all versions of a cell except the newest `keep` restorable ones and their chains. A version that is damaged, or
 * whose chain has a gap, does not count, so the last good one always stays.
 *
 * @param versions all versions of the cell, newest first
 * @param pinned versions that stay with their chains, whatever their age
 */
export async function pruneVersions(
  store: ObjectStore,
  index: VersionIndex,
  cellId: string,
  versions: readonly StoredVersion[],
  keep: number,
  pinned: ReadonlySet<string>,
  options: CallOptions = {},
): Promise<void> {
  const listing = listingOf(versions)
  const needed = new Set<string>()
  let kept = 0
  let at = 0
  for (; at < versions.length && kept < keep; at++) {
    const manifest = await index.restorable(versions[at]?.version as string, cellId, listing, options)
    if (manifest === undefined) continue
    kept++
    for (const link of manifest.chain) needed.add(link)
  }
  for (const version of pinned) {
    const manifest = listing.has(version)
      ? await index.restorable(version, cellId, listing, options)
      : undefined
    for (const link of [version, ...(manifest?.chain ?? [])]) needed.add(link)
  }
  // Newest first: an incremental is removed before its base, so that no listed version lacks its base.
  for (const { version } of versions.slice(at)) {
    if (needed.has(version)) continue
    await store.delete(version, options)
    index.forget(version)
  }
}
