/** A write or a truncation. */
export interface DataChange {
  offset: number
  /** None: the file is cut, or grown with zeros, to `offset`. */
  bytes: Buffer | undefined
  /** When the call that made it had ended. */
  ended: number
  /** A sync that should have stored it has failed: no later one stores it. */
  isStale?: boolean
  /** It is on the disk. */
  isSure?: boolean
}

export class FileNode {
  /** What is sure to be there after a power loss. */
  durable: Buffer = Buffer.alloc(0)
  /** In the order in which they were made; a power loss may keep any of them. */
  pending: DataChange[] = []

  /** While the machine runs. */
  get length(): number {
    let length = this.durable.length
    for (const { offset, bytes } of this.pending)
      length = bytes === undefined ? offset : Math.max(length, offset + bytes.length)
    return length
  }
}

export class FolderNode {
  readonly durable = new Map<string, Node>()
}

export type Node = FileNode | FolderNode

/** Names that change together: a rename is one of two. */
export interface NameChange {
  names: { folder: FolderNode; name: string; node: Node | undefined }[]
  /** Folders that have yet to be synced before it is sure to stay. */
  unsynced: Set<FolderNode>
  ended: number
}

/**
 * A disk, as little of it as POSIX promises. A change of a file is sure to survive once an fsync of that file has begun
 * after it; a name (created, linked, renamed, removed) once its folder was synced. Until then each change may have
 * survived or not, whatever came before or after it; only a rename is never half done.
 *
 * That is harsher than ext4, which keeps names in order and whose fsync of a new file keeps its name, too: whatever ext4
 * can leave behind, this can.
 */
export class DiskModel {
  readonly root = new FolderNode()
  /** Those that are not sure yet, and sure ones that came after them. */
  names: NameChange[] = []
  /** The root as a program sees it. */
  readonly #seen = new Map<FolderNode, Map<string, Node>>([[this.root, new Map()]])

  /** What a path below the root names now; segments are without the root's own. */
  find(segments: readonly string[]): Node | undefined {
    let node: Node | undefined = this.root
    for (const name of segments) {
      if (!(node instanceof FolderNode)) return undefined
      node = this.#entries(node).get(name)
    }
    return node
  }

  /** Changes what paths name, as a unit. */
  setNames(changes: readonly { path: readonly string[]; node: Node | undefined }[], ended: number): void {
    const names = changes.map(({ path, node }) => {
      const folder = this.find(path.slice(0, -1))
      const name = path.at(-1)
      if (!(folder instanceof FolderNode) || name === undefined)
        throw new Error(`No folder for ${path.join('/')}`)
      const entries = this.#entries(folder)
      if (node === undefined) entries.delete(name)
      else entries.set(name, node)
      return { folder, name, node }
    })
    this.names.push({ names, unsynced: new Set(names.map(({ folder }) => folder)), ended })
  }

  /** A file was synced by a call that began then. */
  sync(node: Node, began: number): void {
    if (node instanceof FileNode) {
      for (const change of node.pending) if (change.ended <= began && !change.isStale) change.isSure = true
      // In order: what is sure must not be covered by what is older and may come or not.
      const unsure = node.pending.findIndex(({ isSure }) => !isSure)
      const count = unsure === -1 ? node.pending.length : unsure
      node.durable = withChanges(node.durable, node.pending.slice(0, count))
      node.pending = node.pending.slice(count)
      return
    }
    for (const change of this.names) if (change.ended < began) change.unsynced.delete(node)
    // In order: a sure change must not be undone by an older one that is not.
    while (this.names[0]?.unsynced.size === 0)
      applyNames(this.names.shift() as NameChange, (folder) => folder.durable)
  }

  /** A sync of a file has failed: the system takes what was written for stored all the same. */
  failedSync(node: Node): void {
    if (node instanceof FileNode) for (const change of node.pending) if (!change.isSure) change.isStale = true
  }

  #entries(folder: FolderNode): Map<string, Node> {
    let entries = this.#seen.get(folder)
    if (entries === undefined) {
      entries = new Map()
      this.#seen.set(folder, entries)
    }
    return entries
  }
}

export function applyNames(change: NameChange, entriesOf: (folder: FolderNode) => Map<string, Node>): void {
  for (const { folder, name, node } of change.names) {
    if (node === undefined) entriesOf(folder).delete(name)
    else entriesOf(folder).set(name, node)
  }
}

export function withChanges(before: Buffer, changes: readonly DataChange[]): Buffer {
  let size = before.length
  let room = size
  for (const { offset, bytes } of changes) room = Math.max(room, offset + (bytes?.length ?? 0))
  const after = Buffer.alloc(room)
  before.copy(after)
  for (const { offset, bytes } of changes) {
    if (bytes === undefined) {
      after.fill(0, Math.min(offset, size))
      size = offset
    } else {
      bytes.copy(after, offset)
      size = Math.max(size, offset + bytes.length)
    }
  }
  return after.subarray(0, size)
}
