import type { Command } from 'commander'
import { examples } from '../examples.ts'
import { addServeFlags, type ServeFlags } from '../serve/serve-flags.ts'

const MORE = `
Environment variables without a flag:
  CELLSTORE_ROOT_KEY
      The first key of a new store, in place of a random one ("cellstore keys
      generate" makes one). Ignored, with a line that says so, once the store
      has its accounts and keys.
  AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY, AWS_REGION and their like
      For an s3:// object store: they are where AWS's tools look for them.

A flag wins over its variable, and an empty variable counts as not set.
Durations have a unit: 30s, 15m, 24h, 7d.

On the first start (no store here, and none in the object store) an account and
a key are made, and the key is printed once. With an empty data directory and an
object store that holds this store's backups, its accounts, keys and cells come
back. With an object store that does not answer nothing is made: the command
waits, then fails.

SIGTERM and SIGINT end it: requests under way finish, every cell is
checkpointed, and it exits with 0.
`

const EXAMPLES = examples(
  'cellstore serve',
  `cellstore serve --port 0 --data-dir /var/lib/cells \\
      --object-store file:///var/backups/cells`,
  "export CELLSTORE_OBJECT_STORE='s3://backups/cells?region=eu-central-1'",
  'export CELLSTORE_BACKUP_SNAPSHOT_EVERY=24h',
  'export CELLSTORE_BACKUP_INCREMENTAL_EVERY=15m CELLSTORE_BACKUP_KEEP=30',
  'cellstore serve',
)

export function addServeCommand(program: Command): void {
  const command = program
    .command('serve')
    .summary('serve the cells of a directory over HTTP')
    .description('Serves the cells of a directory over HTTP, and makes the directory at the first start.')
  addServeFlags(command)
    .addHelpText('after', MORE + EXAMPLES)
    .action(async (flags: ServeFlags) => {
      const { serve } = await import('../serve/serve.ts')
      await serve(flags)
    })
}
