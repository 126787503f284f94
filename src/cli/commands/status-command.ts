import type { Command } from 'commander'
import { systemClock } from '../../base/clock.ts'
import { counted } from '../../base/counted.ts'
import type { StatusDocument } from '../../http/answers/status-answers.ts'
import { addStoreFlags, type StoreFlags } from '../flags.ts'
import { examples, formatBytes, formatTable, printResult } from '../terminal/output.ts'

export function addStatusCommand(program: Command): void {
  const command = program
    .command('status')
    .summary('show how the running node is')
    .description(
      'Shows how the node is that runs on the store: its cells, the largest and the busiest of them, how far backups are behind, and the newest failures. Without a node, it fails.',
    )
    .addHelpText('after', examples('cellstore status', 'cellstore status --json | jq .backups.lag_ms'))
  addStoreFlags(command).action(async (flags: StoreFlags) => {
    const { connectNode } = await import('../owner/connect.ts')
    const client = await connectNode(flags, systemClock)
    try {
      printResult(await client.status(), flags.json, showStatus)
    } finally {
      await client.close()
    }
  })
}

function showStatus(status: StatusDocument): string {
  const { version, pid, data_dir, uptime_ms, cells } = status
  return [
    `cellstore ${version}, process ${pid}, up ${age(uptime_ms)}, data in ${data_dir}`,
    `${counted(status.statements, 'statement')} and ${counted(status.commits, 'commit')} since then`,
    `${counted(status.requests.count, 'request')}, ${status.requests.failed} failed; ${counted(status.slow_statements.length, 'slow statement')} of late`,
    `${counted(cells.count, 'cell')}, ${cells.open} open, ${formatBytes(cells.bytes)}`,
    backupLines(status),
    recoveryLine(status),
    workerLine(status),
    section('Largest cells', ['ID', 'NAME', 'SIZE'], cells.largest, (cell) => formatBytes(cell.size_bytes)),
    section('Busiest cells', ['ID', 'NAME', 'OPERATIONS IN THE LAST MINUTES'], cells.busiest, (cell) =>
      String(cell.operations),
    ),
    section('Quarantined cells', ['ID', 'NAME', 'WHY'], cells.quarantined, (cell) => cell.reason),
    failureLines(status),
  ]
    .filter((text) => text !== '')
    .join('\n')
}

function backupLines({ backups }: StatusDocument): string {
  if (backups === null) return 'no object store, so no backups'
  const { lag_ms, changed, newest_stored_at, queue, damaged } = backups
  const lag =
    changed === 0
      ? 'nothing to back up'
      : `${counted(changed, 'cell')} to back up, the oldest change ${age(lag_ms)} ago`
  const jobs = Object.values(queue).reduce((sum, { waiting, running }) => sum + waiting + running, 0)
  const lost =
    backups.object_store_lost_at === null
      ? ''
      : `\nTHE OBJECT STORE DOES NOT ANSWER since ${backups.object_store_lost_at}`
  const shipped = backups.shipping === null ? '' : `\n${shippingLine(backups.shipping)}`
  const bad = damaged === 0 ? '' : `\n${damaged} WITH DAMAGED BACKUPS: see \`cellstore backups verify --all\``
  return `backups in ${backups.object_store}: ${lag}; newest stored ${newest_stored_at ?? 'never'}; ${counted(jobs, 'backup job')} now${shipped}${lost}${bad}`
}

function shippingLine({
  lag_ms,
  waiting_bytes,
  without_history,
  objects,
  bytes,
  failing_since,
}: NonNullable<NonNullable<StatusDocument['backups']>['shipping']>): string {
  const late =
    without_history === 0 ? '' : `; ${counted(without_history, 'changed cell')} until the next backup`
  const failing = failing_since === null ? '' : `; FAILING SINCE ${failing_since}`
  return `shipping: ${age(lag_ms)} behind, ${formatBytes(waiting_bytes)} waiting${late}; ${counted(objects, 'log object')} stored, ${formatBytes(bytes)}${failing}`
}

/** Nothing to say where no cell was lost. */
function recoveryLine({ recovery }: StatusDocument): string {
  if (recovery === null) return ''
  const { cells, recovered, failed, bytes, ended_at, eta_ms } = recovery
  const done = `${recovered} of ${counted(cells, 'lost cell')} restored, ${formatBytes(bytes)}`
  const left = ended_at === null && eta_ms !== null ? `, ${age(eta_ms)} left` : ''
  const bad = failed === 0 ? '' : `\n${failed} COULD NOT BE RESTORED: see \`cellstore recover --all\``
  return `${done}${left}${bad}`
}

function workerLine({ workers }: StatusDocument): string {
  if (workers === null) return 'no workers: the node runs the cells'
  const ended = Object.entries(workers.ended).map(([reason, count]) => `${count} ${reason}`)
  const since = ended.length === 0 ? 'none ended early' : `ended early: ${ended.join(', ')}`
  return `${counted(workers.running, 'worker')}, ${since}; operations that wait: ${workers.operations_waiting}`
}

function section<Cell extends { id: string; name: string | null }>(
  title: string,
  headings: readonly string[],
  cells: readonly Cell[],
  last: (cell: Cell) => string,
): string {
  if (cells.length === 0) return ''
  const rows = cells.map((cell) => [cell.id, cell.name ?? '', last(cell)])
  return `\n${title}\n${formatTable(headings, rows)}`
}

function failureLines({ failures }: StatusDocument): string {
  if (failures.length === 0) return '\nNo failures since the start.'
  const rows = failures.map(({ at, level, message, why, cell_id, count }) => [
    at,
    level,
    `${message}${count > 1 ? ` (${count} times)` : ''}${why === null ? '' : `: ${why}`}`,
    cell_id ?? '',
  ])
  return `\nNewest failures\n${formatTable(['TIME', 'LEVEL', 'WHAT', 'CELL'], rows)}`
}

const AGES: readonly [unit: string, ms: number][] = [
  ['d', 86_400_000],
  ['h', 3_600_000],
  ['m', 60_000],
  ['s', 1_000],
]

/** The two largest units: `3h 5m`. */
function age(ms: number): string {
  let rest = ms
  const parts = AGES.map(([unit, each]) => {
    const count = Math.floor(rest / each)
    rest -= count * each
    return { unit, count }
  })
  const first = parts.findIndex(({ count }) => count > 0)
  if (first === -1) return '0s'
  const shown = parts.slice(first, first + 2).filter(({ count }) => count > 0)
  return shown.map(({ unit, count }) => `${count}${unit}`).join(' ')
}
