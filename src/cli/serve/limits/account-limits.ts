import { DEFAULT_QUOTAS, type Quotas } from '../../../catalog/account-quotas.ts'
import { DEFAULT_MEMORY_LIMITS, type MemoryLimits } from '../../../http/memory-budgets.ts'
import type { RateLimit } from '../../../http/rate-limiter.ts'
import { DEFAULT_STREAM_LIMITS, type StreamLimits } from '../../../http/stream-limits.ts'
import { RATE_MAX, type Rows } from './limit-row.ts'

export const quotas: Rows<Quotas> = {
  cellsMax: {
    flag: 'account-cells',
    unit: 'count',
    default: DEFAULT_QUOTAS.cellsMax,
    about: 'cells of an account; records of as many deleted ones are kept',
    over: '403 `quota_exceeded`',
  },
  apiKeysMax: {
    flag: 'account-keys',
    unit: 'count',
    default: DEFAULT_QUOTAS.apiKeysMax,
    about: 'active API keys of an account; as many that were revoked or have expired are remembered',
    over: '403 `quota_exceeded`',
  },
  idempotencyKeysMax: {
    flag: 'account-idempotency-keys',
    unit: 'count',
    default: DEFAULT_QUOTAS.idempotencyKeysMax,
    about: 'keys of `Idempotency-Key` that are remembered for an account, for a day',
    over: 'the oldest are forgotten',
  },
  bytesMax: {
    flag: 'account-bytes',
    unit: 'bytes',
    default: undefined,
    otherwise: 'no limit',
    about:
      "bytes of the database files of an account's cells, and of what long transactions have left in their logs",
    over: '403 `quota_exceeded` for what would make a file grow, and for new cells',
  },
  backupsMax: {
    flag: 'account-backups-kept',
    unit: 'count',
    default: DEFAULT_QUOTAS.backupsMax,
    about: 'backups that an account has requested and that are kept',
    over: '403 `quota_exceeded`',
  },
  creationsPerSecond: {
    flag: 'account-creations',
    unit: 'count',
    default: DEFAULT_QUOTAS.creationsPerSecond,
    about: 'cells and API keys that an account creates a second; ten times as many at once after a pause',
    over: '429 `rate_limited`',
    max: RATE_MAX,
  },
  nodeCreationsPerSecond: {
    flag: 'node-creations',
    unit: 'count',
    default: DEFAULT_QUOTAS.nodeCreationsPerSecond,
    about: 'the same for all accounts together; half of it is for accounts that created little',
    over: '503 `busy`',
    max: RATE_MAX,
  },
  backupsAtOnce: {
    flag: 'account-backups',
    unit: 'count',
    default: DEFAULT_QUOTAS.backupsAtOnce,
    about: 'requested backups of an account under way; all accounts together: four times as many',
    over: '429 `rate_limited`, 503 `busy`',
    max: RATE_MAX,
  },
  backupReadsAtOnce: {
    flag: 'account-backup-reads',
    unit: 'count',
    default: DEFAULT_QUOTAS.backupReadsAtOnce,
    about:
      'plans of restores and lists of backups of an account under way; all accounts together: four times as many',
    over: '429 `rate_limited`, 503 `busy`',
    max: RATE_MAX,
  },
  backupMibPerSecond: {
    flag: 'account-backup-rate',
    unit: 'count',
    default: DEFAULT_QUOTAS.backupMibPerSecond,
    about:
      "MiB a second of an account's requested backups and restores, exports and imports, also of those that fail; those of a minute at once after a pause",
    over: '429 `rate_limited`',
    max: RATE_MAX,
  },
}

export const rate: Rows<RateLimit> = {
  perSecond: {
    flag: 'rate',
    unit: 'count',
    default: undefined,
    otherwise: 'no limit',
    about: 'requests of an account a second',
    over: '429 `rate_limited`',
    max: RATE_MAX,
  },
  burst: {
    flag: 'rate-burst',
    unit: 'count',
    default: undefined,
    otherwise: 'those of a second',
    about: 'requests of an account at once after a pause; only with `--rate`',
    over: 'as `--rate`',
    max: RATE_MAX,
  },
}

export const streams: Rows<StreamLimits> = {
  total: {
    flag: 'streams',
    unit: 'count',
    default: DEFAULT_STREAM_LIMITS.total,
    about: 'open streams of changes',
    over: '503 `busy`',
    max: 1_000_000,
  },
  perAccount: {
    flag: 'account-streams',
    unit: 'count',
    default: DEFAULT_STREAM_LIMITS.perAccount,
    about: 'of these, of one account',
    over: '429 `rate_limited`',
    max: 1_000_000,
  },
}

export const memory: Rows<MemoryLimits> = {
  bodiesTotal: {
    flag: 'body-memory',
    unit: 'bytes',
    default: DEFAULT_MEMORY_LIMITS.bodiesTotal,
    about: 'bytes of all request bodies, until they are answered',
    over: '503 `busy`',
  },
  bodiesPerAccount: {
    flag: 'account-body-memory',
    unit: 'bytes',
    default: DEFAULT_MEMORY_LIMITS.bodiesPerAccount,
    about: 'of these, of one account',
    over: '429 `rate_limited`',
  },
  unsentTotal: {
    flag: 'unsent-memory',
    unit: 'bytes',
    default: DEFAULT_MEMORY_LIMITS.unsentTotal,
    about: 'bytes of all answers that clients have not taken',
    over: '503 `busy`; the connection of an answer without room is closed',
  },
  unsentPerAccount: {
    flag: 'account-unsent-memory',
    unit: 'bytes',
    default: DEFAULT_MEMORY_LIMITS.unsentPerAccount,
    about: 'of these, of one account',
    over: '429 `rate_limited`; the connection of an answer without room is closed',
  },
}
