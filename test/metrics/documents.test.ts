import ts from 'typescript'
import { describe, expect, test } from 'vitest'
import { ACCOUNT_CHANGES, CELL_CHANGES, KEY_CHANGES } from '../../src/http/routes/change-log.ts'
import { METRIC_DEFINITIONS } from '../../src/metrics/definitions.ts'
import { readProjectFile, readSources, walk } from '../architecture/source.ts'
import { ObservedNode } from '../support/observed-node.ts'
import { ParsedMetrics } from '../support/parsed-metrics.ts'

const PAGE = 'docs/observability.md'
const NAME = /\bcellstore_[a-z_]+\b/g
/** What a histogram is in Prometheus. */
const SUFFIX = /_(bucket|sum|count)$/

/** Lines whose message is not written where it is logged, and the file that has it. */
const INDIRECT: readonly (readonly [file: string, message: string])[] = [
  ['src/backup/backup-reports.ts', 'a backup failed'],
  ['src/backup/backup-reports.ts', 'a restore failed; the cell is as it was'],
  [
    'src/http/quotas/stored-bytes.ts',
    'not all cells of an account could be measured, so its quota of bytes is not exact',
  ],
  [
    'src/store/open/local-cells.ts',
    'disk error: the cell is quarantined until a check proves its files whole',
  ],
  ['src/store/open/local-cells.ts', 'the cell is damaged: it is quarantined until it is restored'],
  ['src/store/open/local-cells.ts', 'upkeep of the cell failed'],
  [
    'src/store/start/prefix-entry.ts',
    'the object store does not answer; serving from local data, backups wait',
  ],
  [
    'src/store/start/prefix-entry.ts',
    'this node cannot use its object store with these settings; nothing is backed up',
  ],
  [
    'src/store/start/prefix-entry.ts',
    'could not record in the directory that this node uses the object store; serving from local data, backups wait',
  ],
  [
    'src/store/start/prefix-entry.ts',
    'the object store lacks what this directory has stored there: it was emptied, or set back to an older copy; everything is stored again',
  ],
  [
    'src/backup/fence/holder-records.ts',
    'could not write the record that says that this node uses the object store; trying again, and after its lease another machine may use it',
  ],
  ['src/workers/node/processes/worker-spawner.ts', 'could not start a worker process'],
  ['src/workers/node/processes/worker-spawner.ts', 'a spare worker ended before it got any work'],
]
const COMPUTED = [
  ...KEY_CHANGES.map((change) => `an API key is ${change}`),
  ...ACCOUNT_CHANGES,
  ...CELL_CHANGES,
]

describe('docs/observability.md', () => {
  test('has a row for each metric, with its type, its labels and its meaning, and no other', () => {
    const page = readProjectFile(PAGE)
    const rows = METRIC_DEFINITIONS.map(({ name, type, labels, help }) => {
      const shown = labels.map((label) => `\`${label}\``).join(', ')
      return `| \`${name}\` | ${type} | ${shown === '' ? '–' : shown} | ${help} |`
    })
    expect(page.match(/^\| `cellstore_.*$/gm)).toEqual(rows)
  })

  test('has a row for each line of the log, and no other', () => {
    const rows = readProjectFile(PAGE).matchAll(/^\| (debug|info|warn|error) \| (`+)(.+?)\2 \| \S.* \|$/gm)
    const documented = [...rows].map(([, , , message]) => message).sort()
    for (const [file, message] of INDIRECT) expect(readProjectFile(file)).toContain(message)
    const logged = new Set([...literalMessages(), ...INDIRECT.map(([, message]) => message), ...COMPUTED])
    expect(documented).toEqual([...logged].sort())
  })
})

test('the dashboard names metrics that a node serves, and shows all of them', async () => {
  const dashboard = readProjectFile('docs/grafana-dashboard.json')
  const { panels, templating } = JSON.parse(dashboard) as {
    panels: { type: string; targets?: { expr: string }[] }[]
    templating: { list: { name: string }[] }
  }
  const shown = new Set((dashboard.match(NAME) ?? []).map((name) => name.replace(SUFFIX, '')))
  expect([...shown].sort()).toEqual(METRIC_DEFINITIONS.map(({ name }) => name).sort())
  for (const { type, targets = [] } of panels) expect(targets.length > 0).toBe(type !== 'row')
  expect(templating.list.map(({ name }) => name)).toEqual(['datasource', 'job', 'instance'])

  const node = await ObservedNode.start(0)
  const cell = await node.newCell()
  await node.request('POST', `/v1/databases/${cell}/backup`, {})
  await node.request('GET', '/v1/nowhere')
  const text = await node.metrics()
  // Also those that have no value as long as nothing went wrong.
  for (const name of shown) expect(text).toContain(`# TYPE ${name} `)
  expect(new ParsedMetrics(text).families.length).toBeGreaterThan(20)
})

/** The messages that are written in a call of a log's method, as they are. */
function literalMessages(): string[] {
  const messages: string[] = []
  for (const { ast } of readSources(['src'])) {
    walk(ast, (node) => {
      if (!ts.isCallExpression(node) || !ts.isPropertyAccessExpression(node.expression)) return
      const [fields, message] = node.arguments
      const isLevel = ['debug', 'info', 'warn', 'error'].includes(node.expression.name.text)
      if (!isLevel || fields === undefined || message === undefined) return
      if (ts.isStringLiteralLike(message)) messages.push(message.text)
    })
  }
  return messages
}
