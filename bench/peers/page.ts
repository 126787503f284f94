import fs from 'node:fs'
import path from 'node:path'
import { growthChart, ratioChart } from './charts.ts'
import { type Measured, newestOfEachGroup, type Results, type Row } from './results.ts'
import { table } from './table.ts'

const DOCS = path.join(import.meta.dirname, '..', '..', 'docs')
const BEGIN = '<!-- made by bench/peers/page.ts -->'
const END = '<!-- end of what is made -->'

const TITLES: Record<string, string> = {
  library: 'In process',
  http: 'Over HTTP, one database',
  backup: 'Backups',
  fleet: 'Many databases',
  growth: 'Growth',
}

/** Writes the tables of docs/peers.md, and docs/peers/*.svg, from the newest results of each group. */
export async function writePage(docs = DOCS, results?: string): Promise<void> {
  const page = path.join(docs, 'peers.md')
  const [before = '', rest = ''] = fs.readFileSync(page, 'utf8').split(BEGIN)
  const after = rest.slice(rest.indexOf(END))
  const charts = path.join(docs, 'peers')
  fs.rmSync(charts, { recursive: true, force: true })
  fs.mkdirSync(charts)
  const parts: string[] = []
  const newest = newestOfEachGroup(results)
  for (const group of Object.keys(TITLES)) {
    const measured = newest.get(group)
    if (measured !== undefined) parts.push(await section(group, measured, charts))
  }
  if (parts.length === 0) fs.rmSync(charts, { recursive: true })
  fs.writeFileSync(page, [before, BEGIN, '\n\n', ...parts, after].join(''))
}

async function section(
  group: string,
  { date, commit, machine, settings, rows }: Results,
  charts: string,
): Promise<string> {
  const { processor, processors, memoryMb, system, node, openFilesMax } = machine
  const run = `${date.slice(0, 10)}, commit ${commit}; ${processors} × ${processor}, ${Math.round(memoryMb / 1_000)} GB, ${system}, Node.js ${node}, ${openFilesMax.toLocaleString('en')} open files a process; ${settings.rounds} rounds of ${settings.turnMs / 1_000} s.`
  const pictures: string[] = []
  const add = (name: string, title: string, svg: string | undefined) => {
    if (svg === undefined) return
    fs.writeFileSync(path.join(charts, `${name}.svg`), svg)
    pictures.push(`![${title}](peers/${name}.svg)`)
  }
  if (group === 'growth')
    for (const what of new Set(rows.map((row) => row.what)))
      add(
        `growth-${slug(what)}`,
        what,
        await growthChart(
          what,
          rows.filter((row) => row.what === what),
        ),
      )
  else {
    const title = `${TITLES[group]}: cellstore beside its peers`
    add(group, title, await ratioChart(title, rows))
  }
  const versions = [...new Set(rows.flatMap(versionsOf))].map((version) => `- ${version}`)
  return [`## ${TITLES[group]}`, run, versions.join('\n'), pictures.join('\n'), table(rows), ''].join('\n\n')
}

function versionsOf({ contenders }: Row): string[] {
  return Object.entries(contenders)
    .filter((entry): entry is [string, Measured] => 'median' in entry[1])
    .map(([name, { version }]) => `*${name}*: ${version}`)
}

function slug(text: string): string {
  return text.toLowerCase().replace(/[^a-z0-9]+/g, '-')
}

if (process.argv[1] === import.meta.filename) await writePage()
