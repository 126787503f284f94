import { randomUUID } from 'node:crypto'
import fs from 'node:fs'
import path from 'node:path'
import { replaceFileDurably } from '../../base/files/durable-files.ts'
import { isCellId, type StorePaths } from '../../base/files/store-paths.ts'
import type { Assignment } from '../../catalog/assignment/assignment.ts'
import { CellError } from '../../errors.ts'

/** Which node a directory is. Another directory is another node, whatever its address. */
export interface NodeIdentity {
  /** A UUID. */
  nodeId: string
  /** Of its own objects in the bucket: `nodes/<id>/`, or empty for the node of a store that ran alone before. */
  prefix: string
}

export function newNodeIdentity(): NodeIdentity {
  const nodeId = randomUUID()
  return { nodeId, prefix: `nodes/${nodeId}/` }
}

/** For a store that ran alone: its objects stay where they are. @param last if it had nodes before, who was the last */
export function identityOfLoneStore(last: Assignment | undefined): NodeIdentity {
  const nodeId = last?.ranges[0]?.node ?? randomUUID()
  return { nodeId, prefix: last?.prefixes[nodeId] ?? '' }
}

/** @returns undefined if the directory is no node of a cluster @throws `invalid_setting` if the file is damaged */
export function readNodeIdentity(paths: StorePaths): NodeIdentity | undefined {
  let content: string
  try {
    content = fs.readFileSync(fileOf(paths), 'utf8')
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return undefined
    throw error
  }
  const identity = parse(content)
  if (identity !== undefined) return identity
  throw new CellError(
    'invalid_setting',
    `${fileOf(paths)} is damaged, so nobody can say which node of the cluster this directory is. Start with an empty directory: the other nodes, and the bucket, have its cells.`,
    { field: 'directory' },
  )
}

/** Durable once it resolves. */
export async function writeNodeIdentity(paths: StorePaths, { nodeId, prefix }: NodeIdentity): Promise<void> {
  await replaceFileDurably(fileOf(paths), Buffer.from(`${JSON.stringify({ node_id: nodeId, prefix })}\n`))
}

function parse(content: string): NodeIdentity | undefined {
  try {
    const { node_id: nodeId, prefix } = JSON.parse(content) as { node_id: string; prefix: string }
    return isCellId(nodeId) && (prefix === '' || prefix === `nodes/${nodeId}/`)
      ? { nodeId, prefix }
      : undefined
  } catch {
    return undefined
  }
}

function fileOf({ root }: StorePaths): string {
  return path.join(root, 'node.json')
}
