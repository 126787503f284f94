/**
 * Writes entries to a cell while calls of it fail, goes on after every failure as a client does, and says what became of
 * each in a file that strace sees it write: `begin 7`, then `done 7` or `failed 7 <code>`. After a failure it reads, and
 * says how that went. Numbers below zero are accounts.
 */
import fs from 'node:fs'
import { CellStore } from '../../../../src/store/cell-store.ts'
import type { Cell } from '../../../../src/store/open/cell.ts'
import { readLedger, steadyNumber, writeEntry } from '../ledger.ts'
import { toldToGo } from './told-to-go.ts'

const [, , directory = '', id = '', story = '', count = ''] = process.argv
const told = fs.openSync(story, 'w')
// Small, so that there are checkpoints.
const store = await CellStore.open(directory, { checkpointBytes: 65_536 })
const cell = store.openCell(id)

function say(line: string): void {
  fs.writeSync(told, `${line}\n`)
}

async function tell(n: number, write: () => unknown): Promise<void> {
  say(`begin ${n}`)
  try {
    await write()
    say(`done ${n}`)
  } catch (error) {
    const { code, message } = error as { code?: string; message: string }
    say(`failed ${n} ${code ?? message}`)
    say(`read ${codeOfRead(cell)}`)
    // Whoever was told to try again does so a little later.
    await new Promise((resolve) => setTimeout(resolve, 5))
  }
}

function codeOfRead(of: Cell): string {
  try {
    readLedger(of)
    return 'ok'
  } catch (error) {
    return (error as { code?: string; message: string }).code ?? (error as Error).message
  }
}

await toldToGo()
for (let i = 0; i < Number(count); i += 3) {
  // Which entry is the oldest would depend on what has failed.
  const [first, ...others] = [i, i + 1, i + 2].map(steadyNumber) as [number, number, number]
  await tell(first, () => cell.transaction(() => writeEntry(cell, first)))
  await Promise.all(others.map((n) => tell(n, () => cell.commit(() => writeEntry(cell, n)))))
  if (i % 9 === 0) await tell(-1 - i, () => store.accounts.create())
}
await store.close().catch(() => {})
