import packageJson from '../../../../package.json' with { type: 'json' }
import type { BackupProgressEvent } from '../../../backup/versions/backup-types.ts'

/**
 * What a command and a running node agree on, next to the routes in owner-routes.ts. It loads nothing, so that a command
 * can talk to a node at once.
 */

/** Raise it with every change that a command or a node of another version would not understand. */
export const OWNER_PROTOCOL = 1

/** A node answers it in every version: the rest depends on the protocol. */
export const GREETING_PATH = '/owner'

export interface Greeting {
  protocol: number
  version: string
  pid: number
}

export function greeting(): Greeting {
  return { protocol: OWNER_PROTOCOL, version: packageJson.version, pid: process.pid }
}

/** A node that is still at work says so this often. */
export const HEARTBEAT_MS = 5_000
/** A command gives up on a node that has said nothing for this long. */
export const SILENCE_MS_MAX = 30_000

/** In an interim response: `upload 4096/65536`, and `upload 4096/65536 800` once it is known that the rest takes 800 ms. */
export const PROGRESS_HEADER = 'progress'

export function formatProgress({ phase, bytes, total, etaMs }: BackupProgressEvent): string {
  return `${phase} ${bytes}/${total}${etaMs === undefined ? '' : ` ${etaMs}`}`
}

export function parseProgress(header: unknown): BackupProgressEvent | undefined {
  const match = /^(read|compress|upload|download) (\d+)\/(\d+)(?: (\d+))?$/.exec(String(header))
  if (match === null) return undefined
  const [, phase, bytes, total, etaMs] = match
  return {
    phase: phase as BackupProgressEvent['phase'],
    bytes: Number(bytes),
    total: Number(total),
    etaMs: etaMs === undefined ? undefined : Number(etaMs),
  }
}
