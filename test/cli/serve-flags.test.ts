import { Command } from 'commander'
import { expect, test, vi } from 'vitest'
import { DEFAULT_LIMITS } from '../../src/base/options/limits.ts'
import { limitsFrom } from '../../src/cli/serve/limits/limits.ts'
import { serverOptions } from '../../src/cli/serve/running-node.ts'
import { addServeFlags, type ServeFlags } from '../../src/cli/serve/serve-flags.ts'
import { storeOptions } from '../../src/cli/serve/served-store.ts'
import { DEFAULT_MEMORY_LIMITS } from '../../src/http/quotas/memory-budgets.ts'
import { resolveSettings } from '../../src/store/settings/settings.ts'

const MIB = 1_048_576

/** The settings of the store that `serve` opens, and of the server in front of it. */
function nodeOf(args: string[]) {
  const command = new Command('serve').exitOverride().configureOutput({ writeErr: () => {} })
  const flags = addServeFlags(command).parse(args, { from: 'user' }).opts()
  const limits = limitsFrom(flags)
  return {
    store: resolveSettings(storeOptions(flags as ServeFlags, limits)),
    server: serverOptions(limits, {}),
  }
}

const backupsOf = (args: string[]) => nodeOf(args).store.backups

test.each([
  ['--max-lag', 'off', 'CELLSTORE_MAX_LAG', 'maxLagMs'],
  ['--snapshot-every', 'never', 'CELLSTORE_BACKUP_SNAPSHOT_EVERY', 'snapshotEveryMs'],
  ['--incremental-every', 'never', 'CELLSTORE_BACKUP_INCREMENTAL_EVERY', 'incrementalEveryMs'],
  ['--drill-every', 'never', 'CELLSTORE_DRILL_EVERY', 'drillEveryMs'],
] as const)('%s %s turns it off, and so does the variable', (flag, word, variable, setting) => {
  expect(backupsOf([])[setting]).toBeGreaterThan(0)
  expect(backupsOf([flag, '1h'])[setting]).toBe(3_600_000)
  expect(backupsOf([flag, word])[setting]).toBeUndefined()
  vi.stubEnv(variable, word)
  try {
    expect(backupsOf([])[setting]).toBeUndefined()
  } finally {
    vi.unstubAllEnvs()
  }
})

test.each([
  ['--advertise', '127.0.0.1:8787', 'http://10.0.0.1:8787'],
  ['--advertise', 'http://10.0.0.1:8787/cells', 'http://10.0.0.1:8787'],
  ['--advertise', 'postgres://10.0.0.1:8787', 'http://10.0.0.1:8787'],
  ['--advertise', 'http://0.0.0.0:8787', 'http://10.0.0.1:8787'],
  ['--advertise', 'http://[::]:8787', 'http://10.0.0.1:8787'],
  ['--cluster-ttl', '1s', 'from 2s to 5m'],
  ['--cluster-ttl', '6m', 'from 2s to 5m'],
])('%s %s is refused before anything is done, with what would do', (flag, value, mend) => {
  expect(() => nodeOf([flag, value])).toThrow(mend)
})

test('an address of a node is kept without its last slash', () => {
  const flags = addServeFlags(new Command('serve').exitOverride())
  const parsed = flags.parse(['--advertise', 'http://10.0.0.1:8787/', '--cluster-ttl', '2s'], {
    from: 'user',
  })
  expect(parsed.opts()).toMatchObject({ advertise: 'http://10.0.0.1:8787', clusterTtl: 2_000 })
})

test('--slow never logs no statement', () => {
  const flags = addServeFlags(new Command('serve').exitOverride())
  expect(flags.parse(['--slow', 'never'], { from: 'user' }).opts()['slow']).toBe(false)
})

test('the limits without a flag hold under serve with their defaults, and no quota becomes "no limit"', () => {
  const { store, server } = nodeOf([])
  expect(store).toMatchObject({
    limits: DEFAULT_LIMITS,
    watch: { cellBytesMax: 1_048_576, totalBytesMax: 67_108_864, keepMs: 60_000 },
    pageCacheBytes: 1_048_576,
    checkpointBytes: 4_194_304,
    commitLogBytes: 67_108_864,
    backups: { recoveryConcurrency: 3, deadlineMs: 86_400_000, remoteWaitMs: 10_000 },
  })
  expect(store.quotas).toEqual({
    cellsMax: 100_000,
    apiKeysMax: 1_000,
    idempotencyKeysMax: 10_000,
    backupsMax: 100_000,
    creationsPerSecond: 200,
    nodeCreationsPerSecond: 400,
    backupsAtOnce: 4,
    backupReadsAtOnce: 4,
    backupMibPerSecond: 32,
  })
  expect(nodeOf(['--account-cells', '5']).store.quotas).toEqual({ ...store.quotas, cellsMax: 5 })
  expect(server).toMatchObject({
    limits: {
      result: { rowsMax: 10_000, bytesMax: 10_485_760 },
      memory: DEFAULT_MEMORY_LIMITS,
      streams: { total: 1_000, perAccount: 100 },
    },
  })
})

test('an account has a quarter of the memory for requests, and room for the largest; never more than there is', () => {
  const perAccount = (...args: string[]) => {
    const { bodiesPerAccount = 0, unsentPerAccount = 0 } = nodeOf(args).server.limits?.memory ?? {}
    return [bodiesPerAccount / MIB, unsentPerAccount / MIB]
  }
  expect(perAccount()).toEqual([64, 64])
  expect(perAccount('--body-memory', '1GiB', '--unsent-memory', '128MiB')).toEqual([256, 32])
  expect(perAccount('--body-bytes', '100MiB', '--result-bytes', '80MiB')).toEqual([100, 80])
  expect(perAccount('--body-memory', '1MiB', '--unsent-memory', '16MiB')).toEqual([1, 10])
})

test('more streams of an account are more of all, and fewer are not', () => {
  const streamsOf = (count: string) => nodeOf(['--account-streams', count]).server.limits?.streams
  expect(streamsOf('500')).toEqual({ total: 5_000, perAccount: 500 })
  expect(streamsOf('5')).toEqual({ total: 1_000, perAccount: 5 })
})

test.each(['--key-bytes', '--hold', '--account-keys', '--streams'])(
  '%s, which was a flag of an earlier version, is refused like any unknown one',
  (flag) => {
    expect(() => nodeOf([flag, '1'])).toThrow(`unknown option '${flag}'`)
  },
)
