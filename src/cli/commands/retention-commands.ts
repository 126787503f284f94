import { createInterface } from 'node:readline/promises'
import type { Command } from 'commander'
import { counted } from '../../base/counted.ts'
import { CellError } from '../../errors.ts'
import type { RetentionDocument } from '../../http/answers/backup-answers.ts'
import { addPlanFlags, addStoreFlags, planOrDefault, type StoreFlags } from '../flags.ts'
import { allCells, checkCellOrAll, runOwnerCommand } from '../owner-command.ts'
import { examples, formatBytes, formatTable, printNote, printResult } from '../terminal/output.ts'

/** The commands that decide how long versions stay, under `backups`. */
export function addRetentionCommands(backups: Command): void {
  addPrune(backups)
  addPurge(backups)
  addPin(backups, 'pin', 'keep a version whatever its age')
  addPin(backups, 'unpin', 'let the plan decide over a version again')
  addPlan(backups)
}

type PruneFlags = { all?: true; dryRun?: true } & StoreFlags

function addPrune(backups: Command): void {
  const command = backups
    .command('prune')
    .summary('remove versions that the plan no longer keeps')
    .description(
      'Looks through the versions of a cell, or of every cell. A version that the plan does not keep is marked, and goes a day later. A running node does this after backups, by its own plan.',
    )
    .argument('[cell]', 'the id or the name of the cell')
    .option('--all', 'every cell that is not deleted')
    .option('--dry-run', 'only show what would go, and why the others stay')
  addPlanFlags(addStoreFlags(command))
    .addHelpText(
      'after',
      examples('cellstore backups prune "$CELL" --dry-run', 'cellstore backups prune --all'),
    )
    .action((cell: string | undefined, { all, dryRun, ...flags }: PruneFlags) => {
      checkCellOrAll(command, cell, all)
      return runOwnerCommand(flags, async (client) => {
        const cells = cell === undefined ? (await allCells(client)).map(({ id }) => id) : [cell]
        const results: ({ id: string } & RetentionDocument)[] = []
        for (const id of cells) results.push({ id, ...(await client.prune({ cell: id, dryRun })) })
        printResult({ dry_run: dryRun === true, databases: results }, flags.json, () =>
          results.map((result) => showPruned(result, dryRun === true)).join('\n'),
        )
      })
    })
}

const WHY: Readonly<Record<string, string>> = {
  pinned: 'pinned',
  current: 'in the current chain',
  proven: 'proven last',
  unproven: 'nothing newer is proven',
  spare: 'one of the two newest bases: none is proven',
  history: 'a moment within the history needs it',
  damaged: 'as young as the plan reaches',
  needed: 'a version that stays needs it',
}

function showPruned({ id, plan, versions }: { id: string } & RetentionDocument, dryRun: boolean): string {
  const count = (...actions: string[]) => versions.filter(({ action }) => actions.includes(action)).length
  const removed = dryRun ? 'to remove' : 'removed'
  const summary = `${id}: ${count('keep')} stay, ${count('mark', 'wait')} marked, ${count('remove')} ${removed} (${plan})`
  if (!dryRun || versions.length === 0) return summary
  const rows = versions.map(
    ({ version, size_bytes, origin, restorable, action, reason, step, marked_at }) => [
      version,
      formatBytes(size_bytes),
      origin,
      action === 'keep' ? 'stays' : action === 'remove' ? 'goes' : `marked ${marked_at}`,
      (step ?? WHY[reason ?? ''] ?? 'the plan does not keep it') + (restorable ? '' : '; cannot be restored'),
    ],
  )
  return `${formatTable(['VERSION', 'SIZE', 'ORIGIN', 'WHAT', 'WHY'], rows)}\n${summary}`
}

type PurgeFlags = { yesDelete?: string } & StoreFlags

function addPurge(backups: Command): void {
  const command = backups
    .command('purge')
    .summary('remove all backups of a deleted cell, for good')
    .description(
      'Removes all backups of a deleted cell. Nothing can bring the cell back after that. What it has committed stays in log objects, beside that of other cells, until they go with their age (--history). Asks for the id of the cell.',
    )
    .argument('<cell>', 'the id of the deleted cell')
    .option('--yes-delete <id>', 'the id once more, for scripts: nothing is asked')
  addStoreFlags(command)
    .addHelpText(
      'after',
      examples('cellstore backups purge "$CELL"', 'cellstore backups purge "$CELL" --yes-delete "$CELL"'),
    )
    .action(async (cell: string, { yesDelete, ...flags }: PurgeFlags) => {
      await confirm(cell, yesDelete)
      await runOwnerCommand(flags, async (client) => {
        const purged = await client.purge({ cell })
        printResult(
          purged,
          flags.json,
          ({ objects, bytes }) => `Removed ${counted(objects, 'object')} of ${cell}, ${formatBytes(bytes)}.`,
        )
        const note =
          'Log objects still hold what it has committed, until they go with their age (--history), and backups of the catalog its name, until they are removed by its plan.'
        printNote(flags.json, note)
      })
    })
}

/** @throws `invalid_request` unless the id was given again */
async function confirm(cell: string, given: string | undefined): Promise<void> {
  const typed =
    given ?? (await ask(`This removes all backups of ${cell} for good. Type the id of the cell: `))
  if (typed?.trim() === cell) return
  const what =
    typed === undefined
      ? 'There is no terminal to ask at: use --yes-delete with the id of the cell.'
      : 'That is not the id of the cell. Nothing was removed.'
  throw new CellError('invalid_request', what, { field: 'yes-delete' })
}

async function ask(question: string): Promise<string | undefined> {
  if (!process.stdin.isTTY) return undefined
  const terminal = createInterface({ input: process.stdin, output: process.stderr })
  try {
    return await terminal.question(question)
  } finally {
    terminal.close()
  }
}

function addPin(backups: Command, name: 'pin' | 'unpin', summary: string): void {
  const command = backups
    .command(name)
    .summary(summary)
    .description(
      'A pinned version stays, and so does what it needs, until it is unpinned. Pins lie in the object store and outlive the node.',
    )
    .argument('<cell>', 'the id or the name of the cell')
    .argument('<version>', 'the version, as `backups list` prints it')
  addStoreFlags(command)
    .addHelpText('after', examples(`cellstore backups ${name} "$CELL" "$VERSION"`))
    .action((cell: string, version: string, flags: StoreFlags) =>
      runOwnerCommand(flags, async (client) => {
        printResult(await client[name]({ cell, version }), flags.json, ({ pinned }) =>
          pinned ? `${version} stays.` : `${version} is left to the plan.`,
        )
      }),
    )
}

function addPlan(backups: Command): void {
  const command = backups
    .command('plan')
    .summary("show or set a cell's own plan")
    .description(
      "A cell's own plan holds in place of the store's. Without a plan, shows the one that the cell has.",
    )
    .argument('<cell>', 'the id or the name of the cell')
    .argument(
      '[plan]',
      'such as all:1d,daily:90d,monthly:5y; or default, for the plan of the store',
      planOrDefault,
    )
  addStoreFlags(command)
    .addHelpText(
      'after',
      examples('cellstore backups plan "$CELL" all:7d,daily:1y', 'cellstore backups plan "$CELL" default'),
    )
    .action((cell: string, plan: string | undefined, flags: StoreFlags) =>
      runOwnerCommand(flags, async (client) => {
        const own = plan === 'default' ? null : plan
        const document = await (own === undefined
          ? client.plan({ cell })
          : client.setPlan({ cell, plan: own }))
        printResult(document, flags.json, (shown) => shown.plan ?? "default: the store's plan")
      }),
    )
}
