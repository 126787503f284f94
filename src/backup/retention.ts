import { isCellError } from '../errors.ts'
import type { BackupCatalogue } from './backup-list.ts'
import type { CallOptions, ObjectStore } from './object-store.ts'

/**
 * Removes what lies behind the newest `keep` restorable versions of a cell, save for what those rest on. A version that
 * is damaged, or whose chain has a gap, does not count: so the last good one always stays.
 *
 * @returns the versions removed
 */
export async function pruneVersions(
  store: ObjectStore,
  catalogue: BackupCatalogue,
  cellId: string,
  keep: number,
  options: CallOptions = {},
): Promise<string[]> {
  const versions = (await catalogue.versions(cellId, options)).map(({ version }) => version)
  const present = new Set(versions)
  const needed = new Set<string>()
  let kept = 0
  let at = 0
  for (; at < versions.length && kept < keep; at++) {
    const chain = await restorableChain(catalogue, versions[at] as string, cellId, present, options)
    if (chain === undefined) continue
    kept++
    for (const link of chain) needed.add(link)
  }
  // Newest first: an incremental goes before the base that it rests on, so that no listed one is ever without its base.
  const removed = versions.slice(at).filter((version) => !needed.has(version))
  for (const version of removed) {
    await store.delete(version, options)
    catalogue.forget(version)
  }
  return removed
}

/** What a version rests on, or undefined if it can't be restored. */
async function restorableChain(
  catalogue: BackupCatalogue,
  version: string,
  cellId: string,
  present: ReadonlySet<string>,
  options: CallOptions,
): Promise<string[] | undefined> {
  try {
    const { chain } = await catalogue.manifest(version, cellId, options)
    return chain.every((link) => present.has(link)) ? chain : undefined
  } catch (error) {
    if (isCellError(error, 'backup_corrupt') || isCellError(error, 'backup_not_found')) return undefined
    throw error
  }
}
