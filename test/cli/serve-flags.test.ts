import { Command } from 'commander'
import { expect, test, vi } from 'vitest'
import { limitsFrom } from '../../src/cli/serve/limits/limits.ts'
import { addServeFlags, type ServeFlags } from '../../src/cli/serve/serve-flags.ts'
import { storeOptions } from '../../src/cli/serve/served-store.ts'
import { resolveSettings } from '../../src/store/settings.ts'

/** The settings of backups in the store that `serve` opens. */
function backupsOf(args: string[]) {
  const flags = addServeFlags(new Command('serve').exitOverride()).parse(args, { from: 'user' }).opts()
  return resolveSettings(storeOptions(flags as ServeFlags, limitsFrom(flags))).backups
}

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

test('--slow never logs no statement', () => {
  const flags = addServeFlags(new Command('serve').exitOverride())
  expect(flags.parse(['--slow', 'never'], { from: 'user' }).opts()['slow']).toBe(false)
})
