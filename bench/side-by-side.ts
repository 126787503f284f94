/** Runs each contender in turn, again and again, so that what disturbs the machine disturbs all of them alike. */
export async function sideBySide<Name extends string>(
  rounds: number,
  contenders: Record<Name, () => number | Promise<number>>,
): Promise<Record<Name, number>> {
  const names = Object.keys(contenders) as Name[]
  const results = Object.fromEntries(names.map((name) => [name, [] as number[]])) as Record<Name, number[]>
  for (const name of names) await contenders[name]()
  for (let round = 0; round < rounds; round++)
    for (const name of names) results[name].push(await contenders[name]())
  return Object.fromEntries(names.map((name) => [name, median(results[name])])) as Record<Name, number>
}

export function median(values: readonly number[]): number {
  const sorted = [...values].sort((a, b) => a - b)
  return sorted[Math.floor(sorted.length / 2)] ?? Number.NaN
}

export interface Aim {
  what: string
  ours: string
  theirs: string
  /** Larger than 1 is better than what it is measured against. */
  ratio: number
  aim: string
  /** Undefined: there is no aim. */
  met: boolean | undefined
}

/** Prints a line of the table in bench/README.md. */
export function report({ what, ours, theirs, ratio, aim, met }: Aim): void {
  console.log(
    `| ${what} | ${ours} | ${theirs} | ${ratio.toFixed(2)} | ${aim} | ${met === undefined ? '' : met ? 'met' : 'MISSED'} |`,
  )
}

export const HEAD = '| what | cellstore | beside it | ratio | aim | |\n|---|---|---|---|---|---|'

/** Prints the table of what takes microseconds, next to bare better-sqlite3. */
export function reportTimes(rows: Record<string, { ours: number; bare: number; ratioMin: number }>): void {
  console.log(HEAD)
  for (const [what, { ours, bare, ratioMin }] of Object.entries(rows)) {
    const ratio = bare / ours
    report({
      what,
      ours: `${ours.toFixed(2)} µs`,
      theirs: `${bare.toFixed(2)} µs`,
      ratio,
      aim: `≥ ${ratioMin} × bare better-sqlite3`,
      met: ratio >= ratioMin,
    })
  }
}
