import { createReadStream } from 'node:fs'
import fs from 'node:fs/promises'
import { pipeline } from 'node:stream/promises'
import type { Command } from 'commander'
import type { BackupOptions } from '../../backup/versions/backup-types.ts'
import { CellError } from '../../errors.ts'
import { addStoreFlags, type StoreFlags } from '../flags.ts'
import { runStoreCommand } from '../owner-command.ts'
import { addRemoteFlags } from '../remote/remote-flags.ts'
import type { CreateCellInput } from '../store-client.ts'
import { examples, formatBytes, printNote, printResult } from '../terminal/output.ts'
import { runTransfer } from '../terminal/transfer.ts'

/** In place of a file's name: standard input or standard output. */
const STANDARD = '-'

export function addExport(cells: Command): void {
  const command = cells
    .command('export')
    .summary('write a cell into one SQLite file')
    .description(
      'Writes a cell into a file that any SQLite opens, while others use the cell. `cells import` takes it, with its KV entries. A file of the same name is not replaced.',
    )
    .argument('<cell>', 'the id or the name of the cell')
    .argument('<file>', 'the new file; - for standard output')
    .addHelpText(
      'after',
      examples('cellstore cells export acme acme.db', 'cellstore cells export acme - | gzip > acme.db.gz'),
    )
  addRemoteFlags(addStoreFlags(command)).action((cell: string, file: string, flags: StoreFlags) =>
    runStoreCommand(flags, async (client) => {
      const bytes = await runTransfer(flags.json, async (options) => {
        const from = await client.exportCell({ cell }, options)
        return file === STANDARD ? await write(from, process.stdout) : await writeFile(from, file)
      })
      if (file === STANDARD) printNote(flags.json, `Exported ${formatBytes(bytes)}.`)
      else
        printResult(
          { file, size_bytes: bytes },
          flags.json,
          () => `Exported ${formatBytes(bytes)} to ${file}.`,
        )
    }),
  )
}

export function addImport(cells: Command): void {
  const command = cells
    .command('import')
    .summary('make a cell of a SQLite file, and print its id')
    .description(
      'Makes a cell of a SQLite database that was made elsewhere, or by `cells export`. The database is checked first: if it is damaged, or holds what SQL over HTTP may not create, there is no cell.',
    )
    .argument('<file>', 'the database; - for standard input')
    .option('--account <id>', 'the account that the cell belongs to; needed if there are several')
    .option('--name <name>', 'a name, which no other cell of the account has')
    .addHelpText('after', examples('cellstore cells import acme.db --name acme'))
  addRemoteFlags(addStoreFlags(command)).action(
    (file: string, { account, name, ...flags }: CreateCellInput & StoreFlags) =>
      runStoreCommand(flags, async (client) => {
        const cell = await runTransfer(flags.json, async (options) =>
          client.importCell({ account, name, file: await read(file, options) }, options),
        )
        printResult(cell, flags.json, ({ id }) => id)
        if (cell.account_id !== undefined)
          printNote(flags.json, `The cell belongs to account ${cell.account_id}.`)
      }),
  )
}

/** @returns the bytes written */
async function write(from: AsyncIterable<Uint8Array>, to: NodeJS.WritableStream): Promise<number> {
  let bytes = 0
  await pipeline(
    from,
    async function* (chunks: AsyncIterable<Uint8Array>) {
      for await (const chunk of chunks) {
        bytes += chunk.length
        yield chunk
      }
    },
    to,
    // Standard output stays open for what follows.
    { end: to !== process.stdout },
  )
  return bytes
}

/** The name appears with the whole file. @throws `invalid_request` if there is one of this name */
async function writeFile(from: AsyncIterable<Uint8Array>, file: string): Promise<number> {
  const partial = `${file}.partial`
  const made = await fs.open(partial, 'wx', 0o600).catch((error) => refuseExisting(error, partial))
  try {
    const bytes = await write(from, made.createWriteStream({ flush: true }))
    await fs.link(partial, file).catch((error) => refuseExisting(error, file))
    return bytes
  } finally {
    await fs.rm(partial, { force: true })
  }
}

function refuseExisting(error: NodeJS.ErrnoException, file: string): never {
  if (error.code !== 'EEXIST') throw error
  throw new CellError('invalid_request', `${file} exists already. Remove it, or choose another name.`)
}

/** A database, and how much of it was read. @throws `invalid_request` if there is no such file */
async function read(file: string, { onProgress }: BackupOptions): Promise<AsyncIterable<Uint8Array>> {
  if (file === STANDARD) return process.stdin
  const found = await fs.stat(file).catch(() => undefined)
  if (found?.isFile() !== true) throw new CellError('invalid_request', `There is no file ${file}.`)
  return counted(createReadStream(file), found.size, onProgress)
}

async function* counted(
  chunks: AsyncIterable<Uint8Array>,
  total: number,
  onProgress: BackupOptions['onProgress'],
): AsyncGenerator<Uint8Array> {
  let bytes = 0
  for await (const chunk of chunks) {
    bytes += chunk.length
    onProgress?.({ phase: 'upload', bytes, total })
    yield chunk
  }
}
