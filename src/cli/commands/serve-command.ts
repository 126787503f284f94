import type { Command } from 'commander'
import { addServeFlags, type ServeFlags } from '../serve/serve-flags.ts'
import { examples } from '../terminal/output.ts'

const MORE = `
Environment variables without a flag:
  CELLSTORE_ROOT_KEY
      The first key of a new store, instead of a random one. "cellstore keys
      generate" makes one. A store that has keys ignores it and logs that.
  AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY, AWS_REGION and so on
      For an s3:// object store: the variables that the AWS tools read.

A flag wins over its variable. An empty variable counts as not set. One that
starts with CELLSTORE_ and is not known is refused. Durations have a unit: 30s,
15m, 24h, 7d.

The first start (no store in the data directory, none in the object store) makes
an account and a key, and prints the key once. If the data directory is empty
and the object store has the backups of a store, that store's accounts, keys and
cells come back. If the object store does not answer, the command waits, then
fails, and makes nothing.

SIGTERM, SIGINT and SIGHUP stop it: requests under way finish, every cell is
checkpointed, and the exit code is 0.
`

const EXAMPLES = examples(
  'cellstore serve',
  `cellstore serve --port 0 --data-dir /var/lib/cells \\
      --object-store file:///var/backups/cells`,
  "export CELLSTORE_OBJECT_STORE='s3://backups/cells?region=eu-central-1'",
  'export CELLSTORE_BACKUP_SNAPSHOT_EVERY=24h',
  'export CELLSTORE_BACKUP_INCREMENTAL_EVERY=15m CELLSTORE_KEEP=all:30d',
  'cellstore serve',
)

export function addServeCommand(program: Command): void {
  const command = program
    .command('serve')
    .summary('serve the cells of a directory over HTTP')
    .description('Serves the cells of a directory over HTTP. The first start makes the directory.')
  addServeFlags(command)
    .addHelpText('after', MORE + EXAMPLES)
    .action(async (flags: ServeFlags) => {
      const { serve } = await import('../serve/serve.ts')
      await serve(flags)
    })
}
