import fs from 'node:fs'
import path from 'node:path'
import type { Random } from '../random.ts'
import {
  applyNames,
  type DataChange,
  type DiskModel,
  FileNode,
  type FolderNode,
  type Node,
  withChanges,
} from './disk-model.ts'

const SECTOR_BYTES = 512

/** What survives of changes that were not sure: nothing, all, the first few, any of them, or any of their sectors. */
const STYLES = ['none', 'all', 'first', 'any', 'torn'] as const
type Style = (typeof STYLES)[number]

/**
 * Lays out what a disk may hold after a power loss right now, in a folder that is empty.
 *
 * @param style in place of a choice
 */
export function layOut(disk: DiskModel, folder: string, random: Random, style?: Style): void {
  const nameStyle = style ?? random.pick(STYLES)
  const entries = new Map<FolderNode, Map<string, Node>>()
  const entriesOf = (of: FolderNode) => {
    let names = entries.get(of)
    if (names === undefined) {
      names = new Map(of.durable)
      entries.set(of, names)
    }
    return names
  }
  const unsure = disk.names.filter(({ unsynced }) => unsynced.size > 0)
  const kept = new Set(choose(unsure, nameStyle, random))
  for (const change of disk.names) {
    if (change.unsynced.size === 0 || kept.has(change)) applyNames(change, entriesOf)
  }
  // One style for the whole disk finds what needs several files to agree; one for each finds the rest.
  const common = style ?? (random.chance(0.5) ? random.pick(STYLES) : undefined)
  writeFolder(disk.root, folder)

  function writeFolder(node: FolderNode, to: string): void {
    for (const [name, child] of entriesOf(node)) {
      const target = path.join(to, name)
      if (child instanceof FileNode) {
        const bytes = name.endsWith('-shm')
          ? leftoverMemory(random)
          : contentOf(child, common ?? random.pick(STYLES), random)
        fs.writeFileSync(target, bytes, { mode: 0o600 })
      } else {
        fs.mkdirSync(target, { mode: 0o700 })
        writeFolder(child, target)
      }
    }
  }
}

function contentOf({ durable, pending }: FileNode, style: Style, random: Random): Buffer {
  if (pending.length === 0) return durable
  const chosen = new Set(choose(pending, style, random))
  const kept = pending.flatMap((change) => {
    if (change.isSure) return [change]
    if (!chosen.has(change)) return []
    return style === 'torn' ? tear(change, random) : [change]
  })
  return withChanges(durable, kept)
}

function choose<T>(changes: readonly T[], style: Style, random: Random): readonly T[] {
  switch (style) {
    case 'none':
      return []
    case 'all':
      return changes
    case 'first':
      return changes.slice(0, random.below(changes.length + 1))
    case 'any':
    case 'torn': {
      const chance = random.pick([0.1, 0.5, 0.9])
      return changes.filter(() => random.chance(chance))
    }
  }
}

/** The sectors of one write that made it to the disk. Each by itself is whole. */
function tear({ offset, bytes, ended }: DataChange, random: Random): DataChange[] {
  if (bytes === undefined) return [{ offset, bytes, ended }]
  const sectors: DataChange[] = []
  for (let at = 0; at < bytes.length; ) {
    const end = Math.min(bytes.length, at + SECTOR_BYTES - ((offset + at) % SECTOR_BYTES))
    sectors.push({ offset: offset + at, bytes: bytes.subarray(at, end), ended })
    at = end
  }
  return random.chance(0.5)
    ? sectors.slice(0, random.below(sectors.length + 1))
    : sectors.filter(() => random.chance(0.5))
}

/** Shared memory is written through a mapping, which no trace shows; after a power loss it may hold anything. */
function leftoverMemory(random: Random): Buffer {
  return Buffer.alloc(random.pick([0, 32_768]), random.below(256))
}
